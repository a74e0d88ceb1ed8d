#include "launcher/cluster/run/event_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "lib/base/thread.h"
#include "lib/base/write_all.h"

namespace train {
namespace {

/// Return the length of the file without a last line that has no end.
Result<off_t> whole_lines(int file, off_t size, const std::string& path) {
  std::vector<char> buffer(64u << 10);
  while (size > 0) {
    const off_t begin = std::max<off_t>(0, size - static_cast<off_t>(buffer.size()));
    const auto wanted = static_cast<std::size_t>(size - begin);
    if (::pread(file, buffer.data(), wanted, begin) != static_cast<ssize_t>(wanted))
      return system_error(errno, "reading " + path);
    const auto end =
        std::find(buffer.rend() - static_cast<std::ptrdiff_t>(wanted), buffer.rend(), '\n');
    if (end != buffer.rend()) return begin + (buffer.rend() - end);
    size = begin;
  }
  return off_t{0};
}

}  // namespace

Result<std::unique_ptr<EventFile>> EventFile::open(const std::string& path,
                                                   std::function<void(const std::string&)> failed) {
  std::error_code ec;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ec);
  FileDescriptor file(::open(
      path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666));
  struct stat status {};
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0)
    return system_error(errno, "writing " + path);
  if (!S_ISREG(status.st_mode)) return Error{Errc::Io, path + " is no plain file"};
  TRY(const off_t whole, whole_lines(file.get(), status.st_size, path));
  if (whole < status.st_size && ::ftruncate(file.get(), whole) != 0)
    return system_error(errno, "writing " + path);
  return std::unique_ptr<EventFile>(new EventFile(std::move(file), path, std::move(failed)));
}

EventFile::EventFile(FileDescriptor file, std::string path,
                     std::function<void(const std::string&)> failed)
    : file_(std::move(file)), path_(std::move(path)), failed_(std::move(failed)) {
  thread_ = start_thread("trainrun-events", [this] { run(); });
}

EventFile::~EventFile() {
  {
    const std::lock_guard lock(mutex_);
    given_up_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void EventFile::add(std::string line, bool newest) {
  const std::lock_guard lock(mutex_);
  if (given_up_) return;
  if (newest && !lines_.empty() && lines_.back().newest) {
    bytes_ -= lines_.back().text.size();
    lines_.pop_back();
  }
  bytes_ += line.size();
  lines_.push_back({std::move(line), newest});
  if (bytes_ > kEventFileQueueBytesMax)
    fail(fmt::format("the disk does not keep up: {} MiB wait", kEventFileQueueBytesMax >> 20));
  changed_.notify_all();
}

void EventFile::finish() {
  std::unique_lock lock(mutex_);
  ending_ = true;
  changed_.notify_all();
  changed_.wait(lock, [this] { return given_up_ || (lines_.empty() && bytes_ == 0); });
}

/// Wait for the next line that is to be written. Return false if there will be none.
bool EventFile::take(Line& line) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (given_up_) return false;
    if (!lines_.empty()) {
      // More of its kind may follow soon, and only the newest counts.
      const bool alone = lines_.size() == 1 && lines_.front().newest && !ending_;
      const TimePoint now = std::chrono::steady_clock::now(), due = newest_at_ + kNewestLineEvery;
      if (!alone || now >= due) break;
      changed_.wait_until(lock, due);
      continue;
    }
    if (ending_) return false;
    changed_.wait(lock);
  }
  line = std::move(lines_.front());
  lines_.pop_front();
  if (line.newest) newest_at_ = std::chrono::steady_clock::now();
  return true;
}

void EventFile::run() {
  for (Line line; take(line);) {
    const auto written = write_all(file_.get(), line.text, path_);
    const std::lock_guard lock(mutex_);
    bytes_ -= std::min(bytes_, line.text.size());
    if (!written && !given_up_) fail(written.error().describe());
    changed_.notify_all();
  }
}

void EventFile::fail(const std::string& why) {
  given_up_ = true;
  lines_.clear();
  bytes_ = 0;
  failed_("callbacks are told nothing more: " + why);
}

}  // namespace train
