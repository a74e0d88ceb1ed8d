#include "lib/net/run_owner.h"

#include <fmt/format.h>

#include "lib/base/check.h"
#include "lib/net/hmac.h"
#include "lib/net/openssl_handles.h"

namespace train {
namespace {

constexpr std::size_t kKeyBytes = 32, kMarkBytes = 16, kSignatureBytes = 64;
constexpr std::string_view kHexDigits = "0123456789abcdef";

bool is_hex(std::string_view text, std::size_t bytes) {
  return text.size() == 2 * bytes && text.find_first_not_of(kHexDigits) == std::string_view::npos;
}

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Openssl<EVP_PKEY> private_key(std::string_view owner_key) {
  TRAIN_CHECK(is_owner_key(owner_key), "a run's key is checked where it is read");
  unsigned char seed[kKeyBytes];
  for (std::size_t i = 0; i < kKeyBytes; ++i)
    seed[i] = static_cast<unsigned char>(kHexDigits.find(owner_key[2 * i]) << 4 |
                                         kHexDigits.find(owner_key[2 * i + 1]));
  Openssl<EVP_PKEY> key(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, seed, kKeyBytes));
  wipe(reinterpret_cast<char*>(seed), kKeyBytes);
  TRAIN_CHECK(key != nullptr, "libcrypto cannot do Ed25519");
  return key;
}

std::string public_key_of(const EVP_PKEY* key) {
  std::string bytes(kKeyBytes, '\0');
  std::size_t size = bytes.size();
  const int done =
      EVP_PKEY_get_raw_public_key(key, reinterpret_cast<unsigned char*>(bytes.data()), &size);
  TRAIN_CHECK(done == 1 && size == kKeyBytes, "libcrypto cannot do Ed25519");
  return bytes;
}

std::string mark_of(std::string_view public_key) {
  const auto mac = hmac_sha256("trainrun 2 run owner", public_key);
  return hex_of({mac.data(), kMarkBytes});
}

// Return the text to sign. It is unambiguous: numbers end at a newline, and the binding's length
// precedes it.
std::string signed_text(std::string_view run_id, std::uint64_t generation,
                        std::string_view binding) {
  return fmt::format("trainrun 2 attach\n{}\n{}\n{}:{}", generation, binding.size(), binding,
                     run_id);
}

}  // namespace

std::string make_owner_key() { return hex_of(random_bytes(kKeyBytes)); }

bool is_owner_key(std::string_view text) { return is_hex(text, kKeyBytes); }

std::string owner_digest(std::string_view owner_key) {
  return mark_of(public_key_of(private_key(owner_key).get()));
}

OwnerProof prove_owner(std::string_view owner_key, std::string_view run_id,
                       std::uint64_t generation, std::string_view binding) {
  const auto key = private_key(owner_key);
  const std::string text = signed_text(run_id, generation, binding);
  OwnerProof proof{public_key_of(key.get()), std::string(kSignatureBytes, '\0')};
  std::size_t size = kSignatureBytes;
  const Openssl<EVP_MD_CTX> context(EVP_MD_CTX_new());
  const bool made =
      context != nullptr &&
      EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
      EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(proof.signature.data()), &size,
                     bytes_of(text), text.size()) == 1;
  TRAIN_CHECK(made && size == kSignatureBytes, "libcrypto cannot do Ed25519");
  return proof;
}

bool owns_run(std::string_view run_id, std::uint64_t generation, std::string_view binding,
              const OwnerProof& proof) {
  const std::string_view mark = run_id.substr(run_id.rfind('-') + 1);
  if (proof.public_key.size() != kKeyBytes || proof.signature.size() != kSignatureBytes ||
      mark != mark_of(proof.public_key))
    return false;
  const Openssl<EVP_PKEY> key(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr,
                                                          bytes_of(proof.public_key), kKeyBytes));
  const Openssl<EVP_MD_CTX> context(EVP_MD_CTX_new());
  const std::string text = signed_text(run_id, generation, binding);
  return key != nullptr && context != nullptr &&
         EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
         EVP_DigestVerify(context.get(), bytes_of(proof.signature), kSignatureBytes, bytes_of(text),
                          text.size()) == 1;
}

}  // namespace train
