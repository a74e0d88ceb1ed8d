// Reads the complete lines of a file that grows, each once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "launcher/dashboard/folder_files.h"

namespace train {

class LineReader {
 public:
  LineReader(std::string name, std::size_t line_bytes_max)
      : name_(std::move(name)), line_bytes_max_(line_bytes_max) {}

  /// Take one line, without its newline, that begins at this offset of the file. Return whether to
  /// read on; if not, the line is not counted as read.
  using Line = std::function<bool(std::string_view line, std::uint64_t offset)>;

  /// Read what is new, at most `bytes_max` bytes of it. If another file has the name, or the file
  /// has shrunk, call `restarted` and begin anew. A line that is too long ends the reading for
  /// good. Return whether there is more at once.
  bool update(const FolderFiles& files, std::uint64_t bytes_max, const Line& line,
              const std::function<void()>& restarted);

  std::uint64_t offset() const { return offset_; }
  bool failed() const { return failed_; }  // a line was too long

 private:
  std::string name_;
  std::size_t line_bytes_max_;
  std::uint64_t inode_ = 0, offset_ = 0;
  FileStamp stamp_;
  bool failed_ = false;
};

}  // namespace train
