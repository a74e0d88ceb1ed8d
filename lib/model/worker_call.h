// A call of a function that a worker's program serves (train/serve.h), or of a command beside the
// worker: its limits, which all that pass it on have in common.
#pragma once

#include <cstddef>
#include <string_view>

namespace train {

inline constexpr std::size_t kCallValueBytesMax = 512u << 10;  // of the argument or result, as JSON
inline constexpr std::size_t kCallNameBytesMax = 128;
inline constexpr std::size_t kCallErrorBytesMax = 4096;
inline constexpr std::size_t kWaitingCallsMax = 64;         // of a worker, at a time
inline constexpr std::size_t kCommandBytesMax = 64u << 10;  // of a command in place of a function
inline constexpr std::size_t kCommandOutputBytesMax = 256u << 10;  // of each of its pipes

/// Kinds of errors, why a rank has no result for a call.
inline constexpr std::string_view kCallThrown = "thrown";    // the function was called, and threw
inline constexpr std::string_view kCallRefused = "refused";  // the function was not called
inline constexpr std::string_view kCallLost = "lost";        // the worker ended, or there is none
inline constexpr std::string_view kCallLate = "timeout";     // nothing came in time

/// Return whether a function may have this name: 1 to 128 letters, digits, '_', '-', '.', ':'
/// and '/'.
constexpr bool is_call_name(std::string_view name) {
  if (name.empty() || name.size() > kCallNameBytesMax) return false;
  for (const char c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && std::string_view("_-.:/").find(c) == std::string_view::npos) return false;
  }
  return true;
}

}  // namespace train
