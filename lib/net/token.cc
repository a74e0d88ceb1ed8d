#include "lib/net/token.h"

#include <fmt/format.h>

#include "lib/base/check.h"
#include "lib/net/hmac.h"
#include "lib/net/secret_file.h"

namespace train {
Token::Token(std::string_view bytes) : bytes_(bytes.begin(), bytes.end()) {
  TRAIN_CHECK(bytes.size() >= kTokenBytesMin && bytes.size() <= kTokenBytesMax,
              "a token's length is checked where it is read");
}

Token& Token::operator=(const Token& other) {
  if (this != &other) *this = Token(other);
  return *this;
}

Token& Token::operator=(Token&& other) noexcept {
  if (this != &other) {
    wipe();
    bytes_ = std::move(other.bytes_);
  }
  return *this;
}

Token::~Token() { wipe(); }

void Token::wipe() { train::wipe(bytes_.data(), bytes_.size()); }

Token Token::generate() {
  std::string random = random_bytes(32);
  std::string hex;
  hex.reserve(2 * random.size());  // growing would leave a copy of the beginning behind
  for (const char byte : random) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  Token token(hex);
  train::wipe(random.data(), random.size());
  train::wipe(hex.data(), hex.size());
  return token;
}

Result<Token> read_token_file(const std::string& path) {
  TRY(const SecretText file, read_secret_file("token file", path, kTokenBytesMax));
  std::string_view text = file.text();
  while (!text.empty() && std::string_view(" \t\r\n").find(text.back()) != std::string_view::npos)
    text.remove_suffix(1);
  if (text.size() >= kTokenBytesMin) return Token(text);
  return Error{Errc::InvalidArgument,
               fmt::format("token file {} holds {} bytes; it must hold {} to {}", path, text.size(),
                           kTokenBytesMin, kTokenBytesMax),
               "make one with: traind token FILE"};
}

Result<Unit> create_token_file(const std::string& path) {
  const Token token = Token::generate();
  return create_secret_file("token", path, token.bytes());
}

}  // namespace train
