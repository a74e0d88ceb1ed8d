// Makes whole lines of a stream of a worker's output, to be shown. Pure. Workers write pieces of
// any size. Terminal control characters are removed here. Other code writes the files that keep the
// output, byte by byte.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace train {

class StreamLines {
 public:
  /// The limit of a line; a longer line is shown in parts.
  static constexpr std::size_t kLineBytesMax = 8u << 10;
  /// Takes a line without its line end. `taken`: how many bytes of the data end with it.
  using Sink = std::function<void(std::string_view line, std::size_t taken)>;

  /// Give `sink` the lines that `data` completes. `end`: the stream is closed, so give it the rest
  /// too. Of a line that carriage returns have overwritten (a progress bar), give the last state.
  void feed(std::string_view data, bool end, const Sink& sink);

 private:
  std::string partial_;
};

}  // namespace train
