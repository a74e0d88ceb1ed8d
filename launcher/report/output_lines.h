// Makes whole lines of workers' output for the launcher's own output: "[gpu-1 3] loading data".
// Pure. Workers write pieces of any size; two ranks never mix within a line. Terminal control
// characters are removed here. Other code writes the files that keep the output, byte by byte.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace train {

/// The lines of one stream.
class StreamLines {
 public:
  /// The limit of a line; a longer line is shown in parts.
  static constexpr std::size_t kLineBytesMax = 8u << 10;

  /// Return the lines that `data` completes, each with its prefix and newline. `end`: the stream is
  /// closed, so return the rest too. For a line that carriage returns have overwritten (a progress
  /// bar), return its last state.
  std::string feed(std::string_view prefix, std::string_view data, bool end);

 private:
  std::string partial_;
};

/// The lines of all streams of a run.
class OutputLines {
 public:
  std::string feed(std::string_view node, std::int32_t rank, int stream, std::string_view data,
                   bool end);

 private:
  std::map<std::pair<std::int32_t, int>, StreamLines> open_;  // by rank and stream
};

}  // namespace train
