#include "lib/net/hmac.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cstdint>

#include "lib/base/check.h"

namespace train {
namespace {

const unsigned char* as_bytes(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

struct FreeMac {
  void operator()(EVP_MAC* mac) const { EVP_MAC_free(mac); }
  void operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }
};

// Only the end of memory, or an OpenSSL without SHA-256, makes these calls fail.
void check_crypto(bool worked) { TRAIN_CHECK(worked, "libcrypto cannot compute HMAC-SHA-256"); }

}  // namespace

struct Hmac::Context {
  std::unique_ptr<EVP_MAC, FreeMac> mac;
  std::unique_ptr<EVP_MAC_CTX, FreeMac> context;
};

Hmac::Hmac(std::string_view key) : context_(std::make_unique<Context>()) {
  context_->mac.reset(EVP_MAC_fetch(nullptr, "HMAC", nullptr));
  check_crypto(context_->mac != nullptr);
  context_->context.reset(EVP_MAC_CTX_new(context_->mac.get()));
  check_crypto(context_->context != nullptr);
  char digest[] = "SHA256";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, digest, 0),
      OSSL_PARAM_construct_end()};
  check_crypto(EVP_MAC_init(context_->context.get(), as_bytes(key), key.size(), parameters) == 1);
}

Hmac::~Hmac() = default;
Hmac::Hmac(Hmac&&) noexcept = default;

std::array<char, kHmacBytes> Hmac::operator()(std::string_view first, std::string_view second) {
  EVP_MAC_CTX* context = context_->context.get();
  std::array<char, kHmacBytes> out;
  std::size_t written = 0;
  check_crypto(EVP_MAC_init(context, nullptr, 0, nullptr) == 1 &&  // begin anew, with the same key
               EVP_MAC_update(context, as_bytes(first), first.size()) == 1 &&
               EVP_MAC_update(context, as_bytes(second), second.size()) == 1 &&
               EVP_MAC_final(context, reinterpret_cast<unsigned char*>(out.data()), &written,
                             out.size()) == 1 &&
               written == out.size());
  return out;
}

bool equal_secrets(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string random_bytes(std::size_t count) {
  std::string out(count, '\0');
  TRAIN_CHECK(
      RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(count)) == 1,
      "no random bytes");
  return out;
}

void wipe(char* bytes, std::size_t count) { OPENSSL_cleanse(bytes, count); }

FrameMac make_frame_mac(std::string_view session_key, std::string_view direction) {
  auto key = Hmac(session_key)("trainrun 1 frames from the ", direction);
  auto hmac = std::make_shared<Hmac>(
      std::string_view(key.data(), key.size()));  // std::function wants what can be copied
  wipe(key.data(), key.size());
  return [hmac, sequence = std::uint64_t{0}](std::string_view frame) mutable {
    char counter[8];
    for (int i = 0; i < 8; ++i) counter[i] = static_cast<char>(sequence >> (8 * i));
    ++sequence;
    const auto full = (*hmac)(std::string_view(counter, sizeof counter), frame);
    std::array<char, kFrameMacBytes> cut;
    std::copy_n(full.begin(), cut.size(), cut.begin());
    return cut;
  };
}

}  // namespace train
