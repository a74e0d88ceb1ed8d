// Workers' output made into whole lines for the launcher's own output: "[gpu-1 3] loading data".
// Pure. Workers write in pieces of any size; two ranks never mix within a line. What files hold is
// untouched by this: they are written elsewhere, byte by byte.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace train {

class OutputLines {
 public:
  /// A longer line is shown in parts.
  static constexpr std::size_t kLineBytesMax = 8u << 10;

  /// `for_terminal`: take out what steers a terminal.
  explicit OutputLines(bool for_terminal) : for_terminal_(for_terminal) {}

  /// The lines that `data` completes, each with its prefix and newline. `end`: the stream is
  /// closed, show the rest too. Of a line that was written over by carriage returns (a progress
  /// bar), its last state is shown.
  std::string feed(std::string_view node, std::int32_t rank, int stream, std::string_view data,
                   bool end);

 private:
  void append_line(std::string& out, std::string_view node, std::int32_t rank,
                   std::string_view line) const;
  void append_part(std::string& out, std::string_view node, std::int32_t rank,
                   std::string_view part) const;

  bool for_terminal_;
  std::map<std::pair<std::int32_t, int>, std::string> partial_;  // by rank and stream
};

}  // namespace train
