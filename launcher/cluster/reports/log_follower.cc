#include "launcher/cluster/reports/log_follower.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "launcher/cluster/reports/log_piece.h"

namespace train {

void LogFollower::skip_to_end() {
  for (const LogPiece& piece : open_pieces(path_)) position_ = std::max(position_, piece.end);
}

std::string LogFollower::read() {
  constexpr std::uint64_t kBytesMax = 256u << 10;
  for (const LogPiece& piece : open_pieces(path_)) {
    if (piece.end <= position_) continue;
    if (piece.begin > position_) {
      const std::uint64_t missing = piece.begin - position_;
      position_ = piece.begin;
      return fmt::format(
          "\n[trainrun: {} bytes of output are missing here: the log had reached its "
          "limit]\n",
          missing);
    }
    std::string text(std::min(kBytesMax, piece.end - position_), '\0');
    const ssize_t got = ::pread(piece.file.get(), text.data(), text.size(),
                                static_cast<off_t>(piece.header_bytes + position_ - piece.begin));
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    position_ += text.size();
    return text;
  }
  return {};
}

}  // namespace train
