// Workers' output made into whole lines for the launcher's own output: "[gpu-1 3] loading data".
// Pure. Workers write in pieces of any size; two ranks never mix within a line. What steers a
// terminal is taken out; the files that hold output are written elsewhere, byte by byte.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace train {

/// One stream.
class StreamLines {
 public:
  /// A longer line is shown in parts.
  static constexpr std::size_t kLineBytesMax = 8u << 10;

  /// The lines that `data` completes, each with its prefix and newline. `end`: the stream is
  /// closed, show the rest too. Of a line that was written over by carriage returns (a progress
  /// bar), its last state is shown.
  std::string feed(std::string_view prefix, std::string_view data, bool end);

 private:
  std::string partial_;
};

/// All streams of a run.
class OutputLines {
 public:
  std::string feed(std::string_view node, std::int32_t rank, int stream, std::string_view data,
                   bool end);

 private:
  std::map<std::pair<std::int32_t, int>, StreamLines> open_;  // by rank and stream
};

}  // namespace train
