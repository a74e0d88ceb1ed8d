// Reads one output stream of a worker from its files, while the launcher appends to them, renames
// them and removes the oldest (output_log.h). Needs no lock, and works on copies of the files.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "launcher/cluster/reports/log_piece.h"

namespace train {

struct LogText {
  std::string text = {};
  std::uint64_t begin = 0;  // its position in the stream
  bool is_output = true;    // else it tells what is missing before `begin`
};

class LogFollower {
 public:
  /// `path`: the newest file of the stream, such as …/ranks/0003/stdout.log.
  explicit LogFollower(std::string path, OpenFile open = open_to_read)
      : path_(std::move(path)), open_(std::move(open)) {}

  const std::string& path() const { return path_; }
  /// Skip everything that the stream contains now.
  void skip_to_end();
  /// Go on at this byte of the stream, or at its end if it has fewer.
  void skip_to(std::uint64_t position);
  /// Return how much the stream has now.
  std::uint64_t end() const;
  std::uint64_t position() const { return position_; }
  /// Return the next output, at most `bytes_max` of it and none from byte `until` on; nothing if
  /// there is no more yet. In place of output that is no longer in any file, return a line that
  /// says how much is missing.
  LogText read(std::uint64_t bytes_max = kBytesMax,
               std::uint64_t until = std::numeric_limits<std::uint64_t>::max());

 private:
  static constexpr std::uint64_t kBytesMax = 256u << 10;

  std::string path_;
  OpenFile open_;
  std::uint64_t position_ = 0;  // in bytes of the stream
};

}  // namespace train
