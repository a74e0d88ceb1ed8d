#include "lib/stacks/crash_place.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "lib/base/terminal_text.h"
#include "lib/stacks/function_names.h"

namespace train {
namespace {

constexpr std::size_t kPlacesMax = 3;

/// The C library's functions between a failed check and its signal, by their public names.
constexpr std::array<std::string_view, 17> kAborting{"raise",
                                                     "abort",
                                                     "pthread_kill",
                                                     "tgkill",
                                                     "kill",
                                                     "gsignal",
                                                     "assert_fail",
                                                     "assert_fail_base",
                                                     "message",
                                                     "malloc_printerr",
                                                     "fortify_fail",
                                                     "stack_chk_fail",
                                                     "chk_fail",
                                                     "assert",
                                                     "assert_perror_fail",
                                                     "pthread_kill_internal",
                                                     "pthread_kill_implementation"};

/// Return whether the frame is the C library's, and only carries out an abort.
bool only_aborts(const StackFrame& frame, std::string_view short_name) {
  return frame.module.starts_with("libc.so") &&
         std::find(kAborting.begin(), kAborting.end(), public_name(short_name)) != kAborting.end();
}

std::string file_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return std::string(path.substr(slash == path.npos ? 0 : slash + 1));
}

struct Place {
  std::string text;
  bool has_source = false;
};

std::vector<Place> places_of(const std::vector<StackFrame>& frames) {
  std::vector<Place> places;
  std::string last;
  for (const StackFrame& frame : frames) {
    const std::string name = short_function_name(frame.function);
    const std::string shown = !name.empty()           ? name
                              : !frame.module.empty() ? frame.module
                                                      : std::string();
    if (shown.empty() || shown == last || is_machinery(name)) continue;
    if (places.empty() && only_aborts(frame, name)) continue;
    const bool source = !frame.file.empty() && !frame.module.starts_with("libc.so");
    places.push_back(
        {source ? fmt::format("{} ({}:{})", shown, file_name(frame.file), frame.line) : shown,
         source});
    last = shown;
  }
  return places;
}

}  // namespace

std::string describe_crash_place(const std::vector<StackFrame>& frames) {
  const std::vector<Place> places = places_of(frames);
  const bool sources = std::any_of(places.begin(), places.end(),
                                   [](const Place& place) { return place.has_source; });
  std::string text;
  std::size_t shown = 0;
  for (std::size_t i = 0; i < places.size() && shown < kPlacesMax; ++i) {
    // The innermost one always, since the crash is there; of the others, those that users know.
    if (i > 0 && sources && !places[i].has_source) continue;
    text += (shown++ == 0 ? "" : " <- ") + places[i].text;
  }
  return terminal_safe(text);
}

std::string describe_crash_stack(const ThreadStack& thread) {
  std::string text;
  bool in_program = false;  // what is outside of a function of the program only calls it
  for (std::size_t i = 0; i < std::min(thread.frames.size(), kCrashFramesMax); ++i) {
    const StackFrame& frame = thread.frames[i];
    const std::string name = short_function_name(frame.function);
    if (in_program && is_machinery(name)) continue;
    in_program |= !name.empty() && !is_machinery(name) && !only_aborts(frame, name);
    std::string line = fmt::format("#{} ", i);
    line += frame.function.empty() ? fmt::format("0x{:x}", frame.pc) : frame.function;
    if (!frame.file.empty())
      line += fmt::format(" {}:{}", frame.file, frame.line);
    else if (!frame.module.empty())
      line += fmt::format(" ({}+0x{:x})", frame.module, frame.offset);
    if (frame.guessed) line += " (guessed)";
    text += terminal_safe(line) + "\n";
  }
  if (thread.frames.size() > kCrashFramesMax)
    text += fmt::format("... and {} more\n", thread.frames.size() - kCrashFramesMax);
  if (!thread.facts.note.empty()) text += terminal_safe(thread.facts.note) + "\n";
  return text;
}

}  // namespace train
