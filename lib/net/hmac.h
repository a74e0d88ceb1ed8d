// HMAC-SHA-256 and random bytes, from libcrypto.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace train {

inline constexpr std::size_t kHmacBytes = 32;

std::array<char, kHmacBytes> hmac_sha256(std::string_view key, std::string_view text);
std::string random_bytes(std::size_t count);
/// Return the bytes as hex, two digits per byte.
std::string hex_of(std::string_view bytes);
/// Overwrite a secret in a way that the compiler does not optimize away.
void wipe(char* bytes, std::size_t count);

}  // namespace train
