#include "lib/net/hmac.h"

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include "lib/base/check.h"

namespace train {

// HMAC() fails only if memory runs out, or if OpenSSL lacks SHA-256.
std::array<char, kHmacBytes> hmac_sha256(std::string_view key, std::string_view text) {
  std::array<char, kHmacBytes> out;
  unsigned int written = 0;
  const auto* made = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                          reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                          reinterpret_cast<unsigned char*>(out.data()), &written);
  TRAIN_CHECK(made != nullptr && written == out.size(), "libcrypto cannot compute HMAC-SHA-256");
  return out;
}

std::string random_bytes(std::size_t count) {
  std::string out(count, '\0');
  TRAIN_CHECK(
      RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), static_cast<int>(count)) == 1,
      "no random bytes");
  return out;
}

std::string hex_of(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

void wipe(char* bytes, std::size_t count) { OPENSSL_cleanse(bytes, count); }

}  // namespace train
