#include "launcher/cluster/children/capped_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace train {
namespace {

constexpr std::uint64_t kLogBytesMax = 64u << 20;

}  // namespace

Result<Unit> CappedLog::open() {
  if (file_.get() >= 0) return Unit{};
  file_.reset(::open(path_.c_str(),
                     O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666));
  struct stat status {};
  if (file_.get() < 0 || ::fstat(file_.get(), &status) != 0)
    return system_error(errno, "opening " + path_);
  if (!S_ISREG(status.st_mode)) return system_error(EINVAL, path_ + " is no file");
  bytes_ = static_cast<std::uint64_t>(status.st_size);
  return Unit{};
}

void CappedLog::add(std::string_view text) {
  said_.add(text);
  if (bytes_ >= kLogBytesMax) return;
  text = text.substr(0, kLogBytesMax - bytes_);
  while (!text.empty()) {
    const ssize_t count = ::write(file_.get(), text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    bytes_ += static_cast<std::uint64_t>(count);
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace train
