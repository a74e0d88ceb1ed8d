// How far a reader of logs has got: a position for each stream, as a short text that the reader
// sends back. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/cluster/reports/output_times.h"
#include "lib/base/result.h"

namespace train {

inline constexpr std::size_t kLogStreamsMax = 256;  // in one answer: the cursor is in an address

struct LogCursor {
  std::map<StreamKey, std::uint64_t> positions = {};  // in bytes of the stream
  std::optional<std::uint64_t> find(StreamKey key) const {
    const auto found = positions.find(key);
    return found == positions.end() ? std::nullopt : std::optional(found->second);
  }
};

/// Return "0.1.812_3.2.90": rank, number and position of each stream that has begun.
std::string log_cursor_text(const LogCursor& cursor);
/// Parse such a text. InvalidArgument for any other one.
Result<LogCursor> parse_log_cursor(std::string_view text);

}  // namespace train
