#include "lib/profile/report/hot_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "lib/base/size_text.h"
#include "lib/base/terminal_text.h"
#include "lib/stacks/function_names.h"

namespace train {
namespace {

constexpr std::size_t kShown = 15;
constexpr int kNameColumns = 72;
constexpr double kIdlePart = 0.05;  // of the time on a processor: then nothing can be said

double seconds_of(Duration time) { return std::chrono::duration<double>(time).count(); }

double percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

/// Return the function that wanted the memory of a stack, not one that got it for others.
std::uint32_t owner_of(const Profile& profile, const ProfileStack& stack) {
  for (std::size_t place = stack.frames.size(); place-- > 1;) {
    const std::string name = short_name(profile.frames.at(stack.frames[place]));
    if (!is_machinery(name) && !is_allocator(name)) return stack.frames[place];
  }
  return stack.frames.back();
}

std::string describe_memory(const Profile& profile) {
  const ProfileFacts& facts = profile.facts;
  const std::uint64_t bytes = samples_of(profile), live = live_bytes_of(profile);
  std::string text;
  if (facts.sample_bytes > 0)
    text = fmt::format(
        "{} allocated in {:.1f} s, {} of it still allocated at the end; {} samples, one each {} "
        "on average",
        size_text(bytes), seconds_of(facts.lasted), live == 0 ? "none" : size_text(live),
        facts.memory_samples, size_text(facts.sample_bytes));
  else
    text = fmt::format("{} that was allocated in {:.1f} s was still allocated at the end",
                       size_text(live), seconds_of(facts.lasted));
  text += ", by " + facts.engine;
  if (facts.lost > 0) text += fmt::format("; {} more were lost", facts.lost);
  return text;
}

std::string memory_line(const HotFunction& one) {
  return fmt::format("{:>10} {:>10}  ", one.self == 0 ? "-" : size_text(one.self),
                     size_text(one.total));
}

bool is_idle(const ProfileFacts& facts) {
  return facts.kind == ProfileKind::Cpu &&
         seconds_of(facts.cpu_time) < kIdlePart * seconds_of(facts.lasted);
}

}  // namespace

std::vector<HotFunction> hot_functions(const Profile& profile, std::size_t count) {
  const bool of_memory = profile.facts.kind == ProfileKind::Memory;
  std::vector<HotFunction> functions(profile.frames.size());
  for (const ProfileStack& stack : profile.stacks) {
    if (stack.frames.empty()) continue;
    if (of_memory) {
      HotFunction& owner = functions[owner_of(profile, stack)];
      owner.total += stack.samples;
      if (is_live(profile, stack)) owner.self += stack.samples;
      continue;
    }
    functions[stack.frames.back()].self += stack.samples;
    for (const std::uint32_t frame : std::set(stack.frames.begin(), stack.frames.end()))
      functions[frame].total += stack.samples;
  }
  for (std::size_t i = 0; i < functions.size(); ++i) {
    functions[i].name = short_name(profile.frames[i]);
    functions[i].module = profile.frames[i].module;
  }
  std::erase_if(functions, [of_memory](const HotFunction& one) {
    return of_memory ? one.total == 0 : one.self == 0;
  });
  std::stable_sort(functions.begin(), functions.end(),
                   [of_memory](const HotFunction& a, const HotFunction& b) {
                     return a.self != b.self || !of_memory ? a.self > b.self : a.total > b.total;
                   });
  functions.resize(std::min(functions.size(), count));
  return functions;
}

std::string profile_title(const Profile& profile, const ProfiledRank& whom) {
  std::string title =
      fmt::format("{} profile of rank {}", to_string(profile.facts.kind), whom.rank);
  if (!whom.node.empty()) title += " on " + whom.node;
  return title;
}

std::string describe_sampling(const Profile& profile) {
  const ProfileFacts& facts = profile.facts;
  if (facts.kind == ProfileKind::Memory) return describe_memory(profile);
  const double lasted = seconds_of(facts.lasted);
  std::string text = fmt::format("{:.2f} of {:.1f} s on a CPU", seconds_of(facts.cpu_time), lasted);
  text += fmt::format("; {} samples", samples_of(profile));
  if (facts.period > Duration{0})
    text += fmt::format(", one each {:.0f} ms", 1e3 * seconds_of(facts.period));
  text += ", by " + facts.engine;
  if (facts.lost > 0) text += fmt::format("; {} more were lost", facts.lost);
  if (is_idle(facts)) text += "; to see where it waits: --kind wall";
  return text;
}

std::string describe_profile(const Profile& profile, const ProfiledRank& whom) {
  const ProfileFacts& facts = profile.facts;
  std::string text = terminal_safe(profile_title(profile, whom));
  text += fmt::format(", pid {}, {}\n{}\n", facts.pid, terminal_safe(facts.executable),
                      terminal_safe(describe_sampling(profile)));
  const std::uint64_t samples = samples_of(profile);
  const auto functions = hot_functions(profile, kShown);
  const bool of_memory = facts.kind == ProfileKind::Memory;
  if (!functions.empty())
    text += of_memory ? "\n      live  allocated  function\n" : "\n   self  total  function\n";
  for (const HotFunction& one : functions) {
    text += of_memory ? memory_line(one)
                      : fmt::format("{:5.1f} % {:4.0f} %  ", percent(one.self, samples),
                                    percent(one.total, samples));
    text += cut_to_columns(terminal_safe(one.name), kNameColumns);
    text += one.module.empty() || one.name == "[" + one.module + "]"
                ? "\n"
                : fmt::format("  [{}]\n", terminal_safe(one.module));
  }
  if (facts.guessed > 0)
    text += fmt::format(
        "note: the outer functions of {} samples are guessed: code without call "
        "frame information lies between\n",
        facts.guessed);
  for (const std::string& note : facts.notes)
    text += fmt::format("note: {}\n", terminal_safe(note));
  return text;
}

}  // namespace train
