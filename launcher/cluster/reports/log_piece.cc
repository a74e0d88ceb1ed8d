#include "launcher/cluster/reports/log_piece.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <utility>

namespace train {
namespace {

constexpr std::string_view kHeaderBegin = "[trainrun: continued from byte ";
constexpr std::string_view kHeaderEnd = "]\n";
constexpr std::uint64_t kBeginMax = std::uint64_t{1} << 62;

std::optional<LogPiece> open_piece(const std::string& path, const OpenFile& open) {
  LogPiece piece{.file = open(path)};
  struct stat status {};
  if (piece.file.get() < 0 || ::fstat(piece.file.get(), &status) != 0 || !S_ISREG(status.st_mode))
    return std::nullopt;
  piece.end = static_cast<std::uint64_t>(status.st_size);
  return piece;
}

/// Read the header. Return false if there is none.
bool read_header(LogPiece& piece) {
  std::array<char, 64> start{};
  const ssize_t got = ::pread(piece.file.get(), start.data(), start.size(), 0);
  const std::string_view text(start.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  const std::size_t line = text.find(kHeaderEnd);
  if (!text.starts_with(kHeaderBegin) || line == text.npos) return false;
  const char* digits = text.data() + kHeaderBegin.size();
  const auto [after, error] = std::from_chars(digits, text.data() + line, piece.begin);
  if (error != std::errc() || after != text.data() + line || piece.begin > kBeginMax) return false;
  piece.header_bytes = line + kHeaderEnd.size();
  piece.end = piece.begin + (std::max(piece.end, piece.header_bytes) - piece.header_bytes);
  return true;
}

}  // namespace

std::string piece_header(std::uint64_t begin) {
  return fmt::format("{}{}{}", kHeaderBegin, begin, kHeaderEnd);
}

FileDescriptor open_to_read(const std::string& path) {
  return FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
}

// Files move from the newest name to the older ones. In this order, a file that moves meanwhile is
// seen twice at worst, and never missed.
std::vector<LogPiece> open_pieces(const std::string& path, const OpenFile& open) {
  auto newest = open_piece(path, open), older = open_piece(path + ".1", open),
       head = open_piece(path + ".head", open);
  if (newest) newest->newest = true;
  std::vector<LogPiece> pieces;
  if (newest && (!head || read_header(*newest))) pieces.push_back(std::move(*newest));
  if (older && read_header(*older)) pieces.push_back(std::move(*older));
  if (head) pieces.push_back(std::move(*head));
  std::sort(pieces.begin(), pieces.end(),
            [](const LogPiece& a, const LogPiece& b) { return a.begin < b.begin; });
  return pieces;
}

}  // namespace train
