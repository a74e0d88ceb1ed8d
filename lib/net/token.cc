#include "lib/net/token.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

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
  hex.reserve(2 * random.size());  // no growth: a copy of the beginning would stay behind
  for (const char byte : random) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  Token token(hex);
  train::wipe(random.data(), random.size());
  train::wipe(hex.data(), hex.size());
  return token;
}

Result<Token> read_token_file(const std::string& path) {
  TRY(const FileDescriptor file, open_secret_file("token file", path));
  char buffer[kTokenBytesMax + 1];
  std::size_t size = 0;
  while (size < sizeof buffer) {
    const ssize_t count = ::read(file.get(), buffer + size, sizeof buffer - size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(errno, fmt::format("reading token file {}", path));
    if (count == 0) break;
    size += static_cast<std::size_t>(count);
  }
  const std::size_t read_size = size;
  while (size > 0 && std::string_view(" \t\r\n").find(buffer[size - 1]) != std::string_view::npos)
    --size;
  Result<Token> result = Error{Errc::InvalidArgument,
                               fmt::format("token file {} holds {} bytes; wanted are {} to {}",
                                           path, size, kTokenBytesMin, kTokenBytesMax),
                               "make one with: traind token FILE"};
  if (size >= kTokenBytesMin && read_size <= kTokenBytesMax)
    result = Token(std::string_view(buffer, size));
  wipe(buffer, sizeof buffer);
  return result;
}

Result<Unit> create_token_file(const std::string& path) {
  const FileDescriptor file(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.get() < 0 && errno == EEXIST) {
    return Error{Errc::AlreadyExists,
                 fmt::format("{} exists already; a token is never overwritten", path),
                 "name a new file"};
  }
  if (file.get() < 0) return system_error(errno, fmt::format("creating token file {}", path));
  const Token token = Token::generate();
  const std::string_view bytes = token.bytes();
  const ssize_t written = ::write(file.get(), bytes.data(), bytes.size());
  const int error_number = written < 0 ? errno : ENOSPC;
  if (written != static_cast<ssize_t>(bytes.size()) || ::fsync(file.get()) != 0) {
    ::unlink(path.c_str());
    return system_error(error_number, fmt::format("writing token file {}", path));
  }
  return Unit{};
}

}  // namespace train
