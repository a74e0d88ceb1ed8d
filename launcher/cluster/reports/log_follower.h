// Reads one output stream of a worker from its files, while the launcher appends to them, renames
// them and removes the oldest (output_log.h). Needs no lock, and works on copies of the files.
#pragma once

#include <cstdint>
#include <string>

namespace train {

class LogFollower {
 public:
  /// `path`: the newest file of the stream, such as …/ranks/0003/stdout.log.
  explicit LogFollower(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  /// Skip everything that the stream contains now.
  void skip_to_end();
  /// Return the next output, at most 256 KiB of it; nothing if there is no more yet. In place of
  /// output that is no longer in any file, return a line that says how much is missing.
  std::string read();

 private:
  const std::string path_;
  std::uint64_t position_ = 0;  // in bytes of the stream
};

}  // namespace train
