#include "launcher/cluster/run/node_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "lib/base/secrets.h"
#include "lib/base/utf8.h"

namespace train {
namespace {
constexpr std::size_t kNotesMax = 8, kNoteBytesMax = 1024;  // of one message
constexpr std::size_t kToldMax = 4096;
}  // namespace

void NodeNotes::prepared(const std::string& node, const Prepared& message) {
  for (std::size_t i = 0; i < std::min(message.notes.size(), kNotesMax); ++i) {
    std::string text =
        fmt::format("{}: {}", node, utf8_text(redacted(message.notes[i]), kNoteBytesMax));
    if (told_.size() == kToldMax || !told_.insert(text).second) continue;
    messages_.warn(text);
  }
}

}  // namespace train
