#include "lib/net/token.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "lib/base/check.h"
#include "lib/net/hmac.h"

namespace train {
namespace {

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  int fd_;
};

Result<Unit> check_token_file(const std::string& path, const struct stat& status) {
  if (!S_ISREG(status.st_mode))
    return Error{Errc::InvalidArgument, fmt::format("token file {} is not a regular file", path)};
  if (status.st_uid != ::geteuid()) {
    return Error{Errc::Permission,
                 fmt::format("token file {} belongs to uid {}, not to uid {}, who reads it", path,
                             status.st_uid, ::geteuid()),
                 fmt::format("chown {} {}", ::geteuid(), path)};
  }
  if ((status.st_mode & 077) != 0) {
    return Error{
        Errc::Permission,
        fmt::format("token file {} has mode {:04o}, which lets others at it; wanted is 0600", path,
                    status.st_mode & 07777),
        fmt::format("chmod 600 {}", path)};
  }
  return Unit{};
}

}  // namespace

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
  // O_NONBLOCK: a FIFO in its place must not make us wait.
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.fd() < 0 && errno == ELOOP) {
    return Error{Errc::Permission,
                 fmt::format("token file {} is a symbolic link; wanted is a regular file", path),
                 "name the file itself"};
  }
  if (file.fd() < 0) return system_error(errno, fmt::format("opening token file {}", path));
  struct stat status {};
  if (::fstat(file.fd(), &status) != 0)
    return system_error(errno, fmt::format("looking at token file {}", path));
  TRY_VOID(check_token_file(path, status));

  char buffer[kTokenBytesMax + 1];
  std::size_t size = 0;
  while (size < sizeof buffer) {
    const ssize_t count = ::read(file.fd(), buffer + size, sizeof buffer - size);
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
  const File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.fd() < 0 && errno == EEXIST) {
    return Error{Errc::AlreadyExists,
                 fmt::format("{} exists already; a token is never overwritten", path),
                 "name a new file"};
  }
  if (file.fd() < 0) return system_error(errno, fmt::format("creating token file {}", path));
  const Token token = Token::generate();
  const std::string_view bytes = token.bytes();
  const ssize_t written = ::write(file.fd(), bytes.data(), bytes.size());
  const int error_number = written < 0 ? errno : ENOSPC;
  if (written != static_cast<ssize_t>(bytes.size()) || ::fsync(file.fd()) != 0) {
    ::unlink(path.c_str());
    return system_error(error_number, fmt::format("writing token file {}", path));
  }
  return Unit{};
}

}  // namespace train
