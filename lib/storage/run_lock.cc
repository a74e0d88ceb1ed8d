#include "lib/storage/run_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <boost/json.hpp>
#include <cerrno>
#include <chrono>
#include <thread>

#include "lib/base/file_descriptor.h"
#include "lib/storage/manifest.h"

namespace train {
namespace {

namespace json = boost::json;
constexpr std::uint64_t kLockBytesMax = 4096;
constexpr int kTriesMax = 20;
constexpr std::chrono::milliseconds kTryPause{10};

std::string lock_text(const LockHolder& holder) {
  return json::serialize(json::object{
             {"host", holder.host}, {"pid", holder.pid}, {"started", holder.started}}) +
         "\n";
}

std::string named(const std::optional<LockHolder>& holder) {
  if (!holder) return "another process";
  return fmt::format("process {} on {} since {}", holder->pid, escape_name(holder->host),
                     escape_name(holder->started));
}

}  // namespace

Result<bool> is_held(const std::string& path) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0 && errno == ENOENT) return false;
  if (file.get() < 0) return system_error(errno, fmt::format("opening '{}'", path));
  if (::flock(file.get(), LOCK_SH | LOCK_NB) == 0) return false;
  if (errno == EWOULDBLOCK) return true;
  return system_error(errno, fmt::format("looking at the lock '{}'", path));
}

std::optional<LockHolder> read_lock_holder(FileSystem& fs, const std::string& path) {
  const auto text = read_small_file(fs, path, kLockBytesMax);
  if (text.has_error()) return std::nullopt;
  json::error_code error;
  const json::value root = json::parse(*text, error);
  if (error || !root.is_object()) return std::nullopt;
  const json::value* host = root.get_object().if_contains("host");
  const json::value* pid = root.get_object().if_contains("pid");
  const json::value* started = root.get_object().if_contains("started");
  if (host == nullptr || !host->is_string() || pid == nullptr || !pid->is_int64() ||
      started == nullptr || !started->is_string())
    return std::nullopt;
  return LockHolder{std::string(host->get_string()), static_cast<int>(pid->get_int64()),
                    std::string(started->get_string())};
}

Result<RunLock> RunLock::acquire(FileSystem& fs, const std::string& path,
                                 const LockHolder& holder) {
  auto lock = fs.lock(path);
  // is_held() of somebody who follows the run holds it for a moment.
  for (int tries = 1; tries < kTriesMax && lock.has_error(); ++tries) {
    if (lock.error().code != Errc::Unavailable) break;
    std::this_thread::sleep_for(kTryPause);
    lock = fs.lock(path);
  }
  if (lock.has_error()) {
    if (lock.error().code != Errc::Unavailable) return lock.error();
    return Error{Errc::AlreadyExists,
                 fmt::format("the run in '{}' is held by {}", parent_path(path),
                             named(read_lock_holder(fs, path))),
                 "stop it with train-run stop, follow it with train-run attach, or take it over "
                 "with --force"};
  }
  RunLock run_lock(fs, path, std::move(*lock));
  // Another launcher may have replaced the file between our open() and our flock().
  if (auto ours = run_lock.check(); ours.has_error())
    return Error{Errc::AlreadyExists,
                 fmt::format("the run in '{}' was just taken by {}", parent_path(path),
                             named(read_lock_holder(fs, path))),
                 "follow it with train-run attach, or take it over with --force"};
  TRY_VOID(run_lock.lock_->describe(lock_text(holder)));
  return run_lock;
}

Result<RunLock> RunLock::take_over(FileSystem& fs, const std::string& path,
                                   const LockHolder& holder) {
  const std::string anew = path + ".new";
  auto locked = fs.lock(anew);  // one that an earlier call left is as good
  if (locked.has_error() && locked.error().code == Errc::Unavailable)
    return Error{
        Errc::AlreadyExists,
        fmt::format("another process is just taking over the run in '{}'", parent_path(path)),
        "follow it with train-run attach"};
  TRY(auto lock, std::move(locked));
  TRY_VOID(lock->describe(lock_text(holder)));
  TRY_VOID(fs.rename(anew, path));
  TRY_VOID(fs.sync_folder(parent_path(path)));
  RunLock run_lock(fs, path, std::move(lock));
  TRY_VOID(run_lock.check());  // two at once: the later rename wins
  return run_lock;
}

Result<Unit> RunLock::check() const {
  const auto status = fs_->status(path_);
  if (!status.has_error() && status->inode == lock_->inode()) return Unit{};
  if (status.has_error() && status.error().code != Errc::NotFound) return status.error();
  return Error{Errc::Fenced, fmt::format("the run in '{}' was taken over by {}", parent_path(path_),
                                         named(read_lock_holder(*fs_, path_)))};
}

}  // namespace train
