#include "sdk/data/gather_texts.h"

#include <fmt/format.h>
#include <train/error.h>

#include <algorithm>
#include <charconv>

#include "sdk/client/session.h"

namespace train::sdk {
namespace {

constexpr std::size_t kPieceBytes = 48u << 10;
constexpr std::size_t kTextBytesMax = 256u << 20;

std::size_t size_in(const std::string& text) {
  std::size_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error == std::errc() && end == text.data() + text.size() && size <= kTextBytesMax)
    return size;
  throw Failure("corrupt", fmt::format("a rank announces '{}' bytes", text.substr(0, 32)));
}

}  // namespace

std::vector<std::string> gather_texts(const std::string& name, const std::string& mine, int ranks) {
  std::size_t longest = 0;
  for (const std::string& size : all_gather(name, std::to_string(mine.size())))
    longest = std::max(longest, size_in(size));
  std::vector<std::string> texts(static_cast<std::size_t>(ranks));
  for (std::size_t at = 0; at < longest; at += kPieceBytes) {
    const std::string piece = at < mine.size() ? mine.substr(at, kPieceBytes) : std::string();
    const auto pieces = all_gather(fmt::format("{}, from byte {}", name, at), piece);
    for (std::size_t rank = 0; rank < texts.size(); ++rank) texts[rank] += pieces.at(rank);
  }
  return texts;
}

}  // namespace train::sdk
