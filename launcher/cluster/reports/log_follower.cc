#include "launcher/cluster/reports/log_follower.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

namespace train {

std::uint64_t LogFollower::end() const {
  std::uint64_t end = 0;
  for (const LogPiece& piece : open_pieces(path_, open_)) end = std::max(end, piece.end);
  return end;
}

void LogFollower::skip_to(std::uint64_t position) { position_ = std::min(position, end()); }

void LogFollower::skip_to_end() { position_ = std::max(position_, end()); }

LogText LogFollower::read(std::uint64_t bytes_max, std::uint64_t until) {
  if (position_ >= until) return {};
  for (const LogPiece& piece : open_pieces(path_, open_)) {
    if (piece.end <= position_) continue;
    if (piece.begin > position_) {
      const std::uint64_t missing = piece.begin - position_;
      position_ = piece.begin;
      return {.text = fmt::format("\n[trainrun: {} bytes of output are missing here: the log had "
                                  "reached its limit]\n",
                                  missing),
              .begin = position_,
              .is_output = false};
    }
    LogText read{.begin = position_};
    read.text.resize(std::min({bytes_max, piece.end - position_, until - position_}));
    const ssize_t got = ::pread(piece.file.get(), read.text.data(), read.text.size(),
                                static_cast<off_t>(piece.header_bytes + position_ - piece.begin));
    read.text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    position_ += read.text.size();
    return read;
  }
  return {};
}

}  // namespace train
