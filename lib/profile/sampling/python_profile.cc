#include "lib/profile/sampling/python_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "lib/stacks/proc_files.h"
#include "lib/stacks/py_spy.h"
#include "lib/stacks/run_program.h"

namespace train {
namespace {

constexpr int kHz = 99;
constexpr std::size_t kTextBytesMax = 32u << 20;
constexpr Duration kOtherTimeMax = milliseconds{200};  // of threads without Python: not told

TimePoint now() { return std::chrono::steady_clock::now(); }

bool parse_number(std::string_view digits, std::uint64_t& value) {
  const char* end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, value);
  return parsed.ec == std::errc{} && parsed.ptr == end;
}

/// Take `process 7:"python a.py";` from the front of a stack, and return "process python a.py", or
/// "" if it is the program. A command line may contain semicolons.
std::string take_process(std::string_view& stack, pid_t program) {
  constexpr std::string_view kProcess = "process ", kEnd = "\";thread (";
  const std::size_t colon = stack.find(":\""), end = stack.find(kEnd);
  std::uint64_t pid = 0;
  if (!stack.starts_with(kProcess) || colon == stack.npos || end == stack.npos || end < colon + 2 ||
      !parse_number(stack.substr(kProcess.size(), colon - kProcess.size()), pid))
    return "";
  const std::string_view command = stack.substr(colon + 2, end - colon - 2);
  stack.remove_prefix(end + 2);
  return pid == static_cast<std::uint64_t>(program) ? "" : fmt::format("process {}", command);
}

/// "thread (8): loader" is "thread loader": threads of one name are one, as in other profiles.
std::string thread_name(std::string_view part) {
  constexpr std::string_view kThread = "thread (";
  const std::size_t close = part.find("): ");
  if (!part.starts_with(kThread) || close == part.npos) return std::string(part);
  return fmt::format("thread {}", part.substr(close + 3));
}

void add_line(std::string_view line, pid_t program, ProfileBuilder& profile) {
  const std::size_t blank = line.rfind(' ');
  std::uint64_t samples = 0;
  if (blank == line.npos || !parse_number(line.substr(blank + 1), samples)) return;
  line = line.substr(0, blank);
  std::vector<ProfileFrame> frames;
  if (std::string process = take_process(line, program); !process.empty())
    frames.push_back({.function = std::move(process)});
  while (!line.empty() && frames.size() < kProfileDepthMax) {
    const std::string_view part = line.substr(0, line.find(';'));
    line.remove_prefix(std::min(part.size() + 1, line.size()));
    frames.push_back({.function = thread_name(part)});
  }
  profile.add(frames, samples);
}

/// Return how long each process of the rank has run.
std::map<pid_t, Duration> cpu_times(const SamplingOrder& order) {
  std::map<pid_t, Duration> times;
  for (const ProfiledProcess& process : order.processes())
    times[process.pid] = cpu_time_of(process.pid).value_or(Duration{0});
  return times;
}

Duration cpu_time_since(const std::map<pid_t, Duration>& before, const SamplingOrder& order) {
  Duration sum{0};
  for (const auto& [pid, time] : cpu_times(order)) {
    const auto known = before.find(pid);
    sum += std::max(Duration{0}, time - (known == before.end() ? Duration{0} : known->second));
  }
  return sum;
}

/// Note how much of the CPU time Python does not know of, if that is much.
void note_other_threads(ProfileFacts& facts, std::uint64_t samples) {
  const Duration sampled = facts.period * static_cast<std::int64_t>(samples);
  const Duration other = facts.cpu_time - std::min(facts.cpu_time, sampled);
  if (facts.kind != ProfileKind::Cpu || other < kOtherTimeMax || other < facts.cpu_time / 5) return;
  add_note(facts,
           fmt::format("{} % of the CPU time is missing: threads that run no Python, such as "
                       "those of OpenMP, used it, and py-spy does not show them",
                       100 * other / facts.cpu_time));
}

}  // namespace

void add_raw_stacks(std::string_view text, pid_t program, ProfileBuilder& profile) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    add_line(line, program, profile);
  }
}

Result<std::optional<Profile>> take_python_profile(const SamplingOrder& order, pid_t program) {
  const auto whole = std::chrono::ceil<seconds>(order.time);  // it knows no parts of seconds
  PySpyOrder ask{.pid = program,
                 .arguments = {"record", "--nonblocking", "--threads", "--subprocesses",
                               "--function", "--format", "raw", "--rate", fmt::to_string(kHz),
                               "--duration", fmt::to_string(whole.count()), "--output", kThirdFile},
                 .to_third = true,
                 .bytes_max = kTextBytesMax};
  if (order.kind == ProfileKind::Wall) ask.arguments.push_back("--idle");
  const std::string executable = executable_of(program);
  const auto before = cpu_times(order);
  const TimePoint began = now();
  TRY(const std::optional<std::string> text, ask_py_spy(ask, began + whole + kPySpyMargin));
  if (!text) return std::nullopt;
  ProfileBuilder profile;
  ProfileFacts& facts = profile.facts();
  facts = {.kind = order.kind,
           .engine = "py-spy",
           .executable = executable,
           .pid = program,
           .lasted = std::min<Duration>(now() - began, whole),
           .period = Duration{seconds{1}} / kHz,
           .cpu_time = cpu_time_since(before, order)};
  add_raw_stacks(*text, program, profile);
  Profile taken = std::move(profile).take();
  note_other_threads(taken.facts, samples_of(taken));
  return taken;
}

}  // namespace train
