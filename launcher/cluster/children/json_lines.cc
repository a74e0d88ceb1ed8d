#include "launcher/cluster/children/json_lines.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <boost/json/parse.hpp>
#include <cerrno>

#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr std::size_t kShownMax = 200;  // of a line that is no JSON

}  // namespace

Result<boost::json::value> JsonLines::take_line() {
  const std::string line = std::exchange(line_, {});
  if (std::exchange(too_long_, false))
    return Error{Errc::InvalidArgument,
                 fmt::format("a line has more than {} bytes", line_bytes_max_)};
  boost::system::error_code ec;
  auto parsed = boost::json::parse(line, ec);
  if (ec) return Error{Errc::InvalidArgument, "no JSON: " + utf8_text(line, kShownMax)};
  return parsed;
}

std::vector<Result<boost::json::value>> JsonLines::take(FileDescriptor& socket,
                                                        std::size_t bytes_max) {
  std::vector<Result<boost::json::value>> lines;
  std::array<char, 64u << 10> buffer{};
  for (std::size_t bytes = 0; bytes < bytes_max;) {
    const ssize_t count = ::recv(socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) socket.reset();
    if (count <= 0) break;
    bytes += static_cast<std::size_t>(count);
    std::string_view rest(buffer.data(), static_cast<std::size_t>(count));
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      too_long_ = too_long_ || line_.size() + end > line_bytes_max_;
      if (!too_long_) line_ += rest.substr(0, end);
      if (end == rest.size()) break;
      rest.remove_prefix(end + 1);
      lines.push_back(take_line());
    }
  }
  return lines;
}

}  // namespace train
