// What a program writes to stderr, in a file of at most 64 MiB, with its last lines at hand for
// messages. Calls block.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "launcher/cluster/run/child_program.h"
#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"

namespace train {

class CappedLog {
 public:
  explicit CappedLog(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  /// Open the file for appending, unless it is open.
  Result<Unit> open();
  /// Add to it. A full disk costs the text, and nothing else.
  void add(std::string_view text);
  /// Return the last line that has come; "": none has.
  std::string last() const { return said_.last(); }

 private:
  const std::string path_;
  FileDescriptor file_;
  std::uint64_t bytes_ = 0;
  LastOutput said_;
};

}  // namespace train
