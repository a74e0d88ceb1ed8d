// Tables of samples as lines of JSON (lib/storage/FORMAT.md, section 9). Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "lib/samples/sample_table.h"

namespace train {

/// A reader passes over longer lines.
inline constexpr std::size_t kSampleLineBytesMax = 8u << 20;

/// Append the table as a line, with its line end.
void append_sample_line(std::string& out, const SampleTable& table);

/// What a line begins with: enough to pass over it without parsing it.
struct SampleLineHead {
  std::int64_t end_ms = 0, span_ms = 0;
  std::uint32_t attempt = 0;
  SampleKind kind = SampleKind::Ranks;
};
/// Return nothing if the line does not begin as one of ours.
std::optional<SampleLineHead> parse_sample_head(std::string_view line);

/// Return the table of a line without its line end; nothing if it is none: torn, or written by
/// others. Fields that we do not know are left out. Texts may contain anything that is UTF-8.
std::optional<SampleTable> parse_sample_line(std::string_view line);

}  // namespace train
