// Writes what happens in the run to a file, one line of JSON for each event (docs/driver.md), for
// programs that read it at their own pace. A thread of its own writes: storage may hang, and nobody
// waits for it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"
#include "lib/base/time.h"

namespace train {

/// What may wait for a disk that is slow; beyond it, no more is written.
inline constexpr std::size_t kEventFileQueueBytesMax = 64u << 20;
/// How often the newest of lines of which only the newest counts is written at most.
inline constexpr Duration kNewestLineEvery = milliseconds(100);

class EventFile {
 public:
  /// Open the file, and make it and its folder if it is missing. What an earlier writer left of a
  /// line is cut off. `failed` is called once, on the thread, if nothing more is written.
  static Result<std::unique_ptr<EventFile>> open(const std::string& path,
                                                 std::function<void(const std::string&)> failed);
  ~EventFile();  // gives up what is not written yet
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  /// Add a line with its newline. If it says all that the line before says (`newest`), and that is
  /// not written yet, it takes its place. Returns at once.
  void add(std::string line, bool newest);
  /// Wait until all is written, or nothing more will be. Blocks; call nothing afterwards.
  void finish();

 private:
  struct Line {
    std::string text;
    bool newest = false;
  };
  EventFile(FileDescriptor file, std::string path, std::function<void(const std::string&)> failed);
  void run();
  bool take(Line& line);
  void fail(const std::string& why);

  const FileDescriptor file_;
  const std::string path_;
  const std::function<void(const std::string&)> failed_;
  std::mutex mutex_;  // protects all below
  std::condition_variable changed_;
  std::deque<Line> lines_;
  std::size_t bytes_ = 0;
  TimePoint newest_at_{};  // when a line of that kind was written last
  bool ending_ = false, given_up_ = false;
  std::thread thread_;
};

}  // namespace train
