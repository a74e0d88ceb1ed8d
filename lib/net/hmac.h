// HMAC-SHA-256 and random bytes, by libcrypto. The only files here that know OpenSSL are hmac.cc
// and token.cc.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "lib/wire/frame.h"

namespace train {

inline constexpr std::size_t kHmacBytes = 32;

/// A key, made ready once and used for many MACs.
class Hmac {
 public:
  explicit Hmac(std::string_view key);
  ~Hmac();
  Hmac(Hmac&&) noexcept;
  std::array<char, kHmacBytes> operator()(std::string_view first, std::string_view second = {});

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

/// In a time that does not depend on the contents.
bool equal_secrets(std::string_view a, std::string_view b);
std::string random_bytes(std::size_t count);
void wipe(char* bytes, std::size_t count);

/// The MACs of one direction of a connection: over a counter and the frame, with a key of this
/// direction alone, cut to 16 bytes.
FrameMac make_frame_mac(std::string_view session_key, std::string_view direction);

}  // namespace train
