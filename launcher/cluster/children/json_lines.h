// Reads JSON, one value a line, from a socket that does not block.
#pragma once

#include <boost/json/value.hpp>
#include <limits>
#include <string>
#include <vector>

#include "lib/base/file_descriptor.h"
#include "lib/base/result.h"

namespace train {

class JsonLines {
 public:
  explicit JsonLines(std::size_t line_bytes_max) : line_bytes_max_(line_bytes_max) {}

  /// Return the lines that have come, those of about `bytes_max` at most. An error stands for a
  /// line that is too long, or no JSON. At the end of the stream, close the socket: else it would
  /// be ready for ever.
  std::vector<Result<boost::json::value>> take(
      FileDescriptor& socket, std::size_t bytes_max = std::numeric_limits<std::size_t>::max());

 private:
  Result<boost::json::value> take_line();

  std::size_t line_bytes_max_;
  std::string line_;  // the beginning of one
  bool too_long_ = false;
};

}  // namespace train
