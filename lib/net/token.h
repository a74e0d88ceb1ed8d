// The secret that the machines of a cluster share. It is never sent, logged or put into an
// environment; tls.h proves that we hold it. Each copy wipes its bytes from memory when it is
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
  /// Hold a copy of `bytes`, whose number must be within the limits above.
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
  std::vector<char> bytes_;  // not a std::string, which copies a short text when it is moved
};

/// Read a token from a file that satisfies the rules of secret_file.h. Refuses fewer than 32 bytes,
/// not counting white space at the end.
Result<Token> read_token_file(const std::string& path);

/// Generate a token in a new file of mode 0600. Errc::AlreadyExists if the file exists; it is never
/// overwritten.
Result<Unit> create_token_file(const std::string& path);

}  // namespace train
