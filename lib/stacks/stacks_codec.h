// The bytes between a process that captures stacks and trainrun-unwind, which is installed with it:
// the format has no versions. A stream is a sequence of messages: "trs1", a u32 length, the
// payload. Decoding checks every length, and refuses what is left over.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/base/result.h"
#include "lib/stacks/process_capture.h"
#include "lib/stacks/process_stacks.h"

namespace train {

std::string encode_capture(const ProcessCapture& capture);
Result<ProcessCapture> decode_capture(std::string_view payload);

std::string encode_stacks(const ProcessStacks& stacks);
Result<ProcessStacks> decode_stacks(std::string_view payload);

inline constexpr std::size_t kStackMessageBytesMax = 64u << 20;
inline constexpr std::size_t kStackMessageHeaderBytes = 8;

/// Return the header that precedes a payload of so many bytes.
std::string stack_message_header(std::size_t payload_bytes);
/// Return the length of the payload that follows this header of kStackMessageHeaderBytes.
Result<std::size_t> stack_message_size(std::string_view header);
/// Remove the first message from `stream`, and return its payload; nothing if it is not complete.
std::optional<std::string_view> next_stack_message(std::string_view& stream);

}  // namespace train
