// The secret that the machines of a cluster share. It is never sent, logged or put into an
// environment; tls.h proves that we hold it. Its bytes are wiped from memory when the last copy is
// destroyed.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace train {

inline constexpr std::size_t kTokenBytesMin = 32;
inline constexpr std::size_t kTokenBytesMax = 4096;

class Token {
 public:
  /// Precondition: within the limits above.
  explicit Token(std::string_view bytes);
  Token(const Token&) = default;
  Token(Token&&) = default;
  Token& operator=(const Token&);
  Token& operator=(Token&&) noexcept;
  ~Token();

  std::string_view bytes() const { return {bytes_.data(), bytes_.size()}; }

  /// Generate a token: 32 random bytes as 64 hex digits.
  static Token generate();

 private:
  void wipe();
  std::vector<char> bytes_;  // not a std::string: a short one is copied when it is moved
};

/// Read a token from a file that fulfils the rules of secret_file.h. Refuses fewer than 32 bytes.
/// White space at the end does not count.
Result<Token> read_token_file(const std::string& path);

/// Generate a token into a new file of mode 0600. An existing file is never overwritten
/// (Errc::AlreadyExists).
Result<Unit> create_token_file(const std::string& path);

}  // namespace train
