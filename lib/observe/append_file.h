// An AppendFile is a file for appending, with a buffer in front of write(2). If a write fails (a
// full disk), the buffer keeps what was not written, and the next flush continues at exactly that
// byte, so that a temporary error never tears a line.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/result.h"

namespace train {

class AppendFile {
 public:
  AppendFile() = default;
  AppendFile(AppendFile&& other) noexcept;
  AppendFile& operator=(AppendFile&& other) noexcept;
  ~AppendFile();

  /// Open for appending, and create the file if missing; a new file's name is synced with its first
  /// bytes.
  static Result<AppendFile> open(std::string path);
  /// Cut the file back to `bytes`. Nothing may be buffered.
  Result<Unit> truncate(std::uint64_t bytes);

  const std::string& path() const { return path_; }
  /// Return whether the path still leads to this file: nobody has removed or replaced it.
  bool is_at_path() const;
  /// Return the buffer; text appended to it reaches the file with the next flush.
  std::string& buffer() { return buffer_; }
  Result<Unit> flush();
  /// Flush, then fdatasync.
  Result<Unit> sync();
  /// Return how many bytes the file has, without what is still in the buffer.
  Result<std::uint64_t> size() const;

 private:
  std::string path_;
  std::string buffer_;
  int fd_ = -1;
  bool dirty_ = false;  // written, not synced
  bool name_is_synced_ = true;
};

/// Write `content` beside `path`, sync it, and rename it over `path`, so that a reader sees either
/// the old file or the new one.
Result<Unit> replace_file(const std::string& path, const std::string& content);
/// Return the whole file, or "" if it does not exist.
Result<std::string> read_file_or_empty(const std::string& path);

}  // namespace train
