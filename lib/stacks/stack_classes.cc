#include "lib/stacks/stack_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "lib/base/rank_ranges.h"
#include "lib/base/terminal_text.h"
#include "lib/stacks/function_names.h"

namespace train {
namespace {

constexpr std::size_t kLinesMax = 3;  // of one function, in which ranks of a class differ
constexpr std::size_t kUnknownDepth = 5;

struct NamedFrame {
  std::string name{};
  std::string file{};  // without its folder; or empty
  std::uint32_t line = 0;
  bool python = false;
  bool library = false;  // of Python: nobody looks for its own mistake there

  /// Python's functions have short names: `forward` of which file?
  std::string key() const { return python ? fmt::format("{} ({})", name, file) : name; }
};

std::string file_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return std::string(path.substr(slash == path.npos ? 0 : slash + 1));
}

NamedFrame python_frame(const StackFrame& frame) {
  NamedFrame named{frame.function, file_name(frame.file), frame.line, true};
  for (const std::string_view part : {"/lib/python3", "/site-packages/", "/dist-packages/"})
    named.library = named.library || frame.file.find(part) != std::string::npos;
  named.library = named.library || frame.file.starts_with("<frozen ");
  return named;
}

/// What is compared and shown of a main thread.
struct Position {
  std::vector<NamedFrame> frames{};  // the wait first, if it waits; then without machinery
};

/// A function of a library without symbols is named after the library: its offset means nothing to
/// a user, and ranks in one driver call are often at different ones. One of a stripped program
/// keeps its offset.
std::string name_of(const StackFrame& frame) {
  if (!frame.function.empty()) return short_function_name(frame.function);
  if (frame.module.find(".so") != std::string::npos) return frame.module;
  return frame.module.empty() ? fmt::format("0x{:x}", frame.pc)
                              : fmt::format("{}+0x{:x}", frame.module, frame.offset);
}

/// Return the file of a frame's source, unless it is the C library's, which nobody looks for.
std::string source_of(const StackFrame& frame) {
  for (const std::string_view module : {"libc.so", "libpthread", "ld-linux", "libm.so"}) {
    if (frame.module.starts_with(module)) return "";
  }
  return file_name(frame.file);
}

/// Cut everything below the outermost of the innermost waits, and leave machinery out.
Position position_of(const std::vector<StackFrame>& frames) {
  Position position;
  bool in_wait = true;
  for (const StackFrame& frame : frames) {
    if (frame.python) {  // whatever it is called
      NamedFrame named = python_frame(frame);
      in_wait = false;
      if (position.frames.empty() || position.frames.back().key() != named.key())
        position.frames.push_back(std::move(named));
      continue;
    }
    std::string name = name_of(frame);
    const bool machinery = is_machinery(name);
    if (in_wait && is_wait(name)) {
      position.frames = {{std::string(public_name(name))}};
      continue;
    }
    if (machinery) continue;
    in_wait = false;
    // Ranks do not differ by the depth of a recursion, or within a library without symbols.
    if (!position.frames.empty() && position.frames.back().name == name) continue;
    position.frames.push_back({std::move(name), source_of(frame), frame.line});
  }
  return position;
}

/// Return the innermost frame with a known source, of the user's code if there is one.
std::vector<NamedFrame>::const_iterator known_frame(const Position& position) {
  const auto& frames = position.frames;
  const auto known = std::find_if(frames.begin(), frames.end(), [](const NamedFrame& frame) {
    return !frame.file.empty() && !frame.library;
  });
  if (known != frames.end()) return known;
  return std::find_if(frames.begin(), frames.end(),
                      [](const NamedFrame& frame) { return !frame.file.empty(); });
}

/// "c10d::allreduce <- train_digits main.cc:88": what the innermost function with a known source
/// has called, and that function; without sources, the innermost functions.
std::string where(const Position& position, const std::set<std::uint32_t>& lines) {
  const auto& frames = position.frames;
  const auto known = known_frame(position);
  std::string text;
  if (known == frames.end()) {
    for (std::size_t i = 0; i < std::min(frames.size(), kUnknownDepth); ++i)
      text += (i == 0 ? "" : " <- ") + frames[i].name;
    return text;
  }
  if (known != frames.begin()) text = std::prev(known)->name + " <- ";
  text += fmt::format("{} {}:", known->name, known->file);
  std::size_t shown = 0;
  for (const std::uint32_t line : lines) {
    if (shown == kLinesMax) return text + ",...";
    text += fmt::format("{}{}", shown++ == 0 ? "" : ",", line);
  }
  return text;
}

std::uint32_t known_line(const Position& position) {
  const auto known = known_frame(position);
  return known == position.frames.end() ? 0 : known->line;
}

/// Say of a process without a main thread's stack what is known instead.
std::string without_stack(const ProcessStacks& process) {
  if (process.threads.empty()) return process.notes.empty() ? "no stacks" : process.notes.front();
  const ThreadFacts& facts = process.threads.front().facts;
  std::string text = facts.note.empty() ? "no frames" : facts.note;
  text += fmt::format(", state {}", facts.state);
  if (!facts.syscall.empty()) text += ", in " + facts.syscall;
  if (!facts.wchan.empty()) text += fmt::format(" ({})", facts.wchan);
  if (facts.note.empty() && !process.notes.empty()) text += ", " + process.notes.back();
  return text;
}

/// Return whether a main thread waits for other ranks: it is in a collective call, or waits for a
/// GPU, on which such a call may run.
bool waits_for_others(const std::vector<StackFrame>& frames) {
  return std::any_of(frames.begin(), frames.end(), [](const StackFrame& frame) {
    if (!frame.python) return is_wait_for_others(name_of(frame));
    return file_name(frame.file) == "distributed_c10d.py" ||
           frame.file.find("/torch/cuda/") != std::string::npos;
  });
}

struct Gathered {
  StackClass found{};
  Position position{};
  std::set<std::uint32_t> lines{};
};

}  // namespace

std::vector<StackClass> stack_classes(const std::vector<RankStacks>& ranks) {
  std::map<std::vector<std::string>, Gathered> by_key;
  for (const RankStacks& rank : ranks) {
    const auto& threads = rank.process.threads;
    Position position;
    if (!threads.empty()) position = position_of(threads.front().frames);
    std::vector<std::string> key;
    for (const NamedFrame& frame : position.frames) key.push_back(frame.key());
    if (key.empty()) key = {without_stack(rank.process)};
    Gathered& gathered = by_key[key];
    if (!threads.empty() && waits_for_others(threads.front().frames))
      gathered.found.waits_for_others = true;
    gathered.lines.insert(known_line(position));
    if (gathered.found.ranks.empty()) gathered.position = std::move(position);
    gathered.found.ranks.push_back(rank.rank);
    gathered.found.functions = std::move(key);
  }

  std::vector<StackClass> classes;
  for (auto& [key, gathered] : by_key) {
    gathered.found.has_stack = !gathered.position.frames.empty();
    gathered.found.where =
        gathered.found.has_stack ? where(gathered.position, gathered.lines) : key.front();
    std::sort(gathered.found.ranks.begin(), gathered.found.ranks.end());
    classes.push_back(std::move(gathered.found));
  }
  std::sort(classes.begin(), classes.end(), [](const StackClass& a, const StackClass& b) {
    if (a.ranks.size() != b.ranks.size()) return a.ranks.size() > b.ranks.size();
    return a.ranks < b.ranks;
  });
  return classes;
}

std::string describe_classes(const std::vector<StackClass>& classes) {
  std::string text;
  for (std::size_t i = 0; i < std::min(classes.size(), kDescribedClassesMax); ++i) {
    const StackClass& one = classes[i];
    const bool single = one.ranks.size() == 1;
    text += single ? fmt::format("rank {}", one.ranks.front())
                   : fmt::format("ranks {} ({})", rank_ranges(one.ranks), one.ranks.size());
    text += fmt::format("{}{}\n", one.has_stack ? " in " : ": ", terminal_safe(one.where));
  }
  if (classes.size() > kDescribedClassesMax)
    text += fmt::format("... and {} more places\n", classes.size() - kDescribedClassesMax);
  return text;
}

}  // namespace train
