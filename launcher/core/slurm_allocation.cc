#include "launcher/core/slurm_allocation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <limits>

#include "lib/base/secrets.h"

namespace train {
namespace {

constexpr std::size_t kNodeListBytesMax = 1u << 20, kNodeNameBytesMax = 253;
constexpr std::size_t kDigitsMax = 19;  // of a number below 2^63
constexpr int kGpusMax = 1024;
constexpr std::string_view kAnnouncement = "traind-announce 1 ";

// What says which job it is, and nothing of the shape of a step.
constexpr std::array<std::string_view, 8> kOfJob{
    "SLURM_JOB_", "SLURM_JOBID",        "SLURM_ARRAY_", "SLURM_SUBMIT_",
    "SLURM_HET_", "SLURM_CLUSTER_NAME", "SLURM_CONF",   "SLURM_RESTART_COUNT"};

template <std::size_t N>
bool begins_with_one(std::string_view text, const std::array<std::string_view, N>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return text.starts_with(prefix); });
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_character(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-' ||
         c == '_';
}

/// Return the number that the whole text is.
std::optional<std::int64_t> number_in(std::string_view text, std::int64_t max) {
  std::int64_t value = 0;
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_digit)) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value > max) return std::nullopt;
  return value;
}

std::string variable(const EnvironmentMap& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

Error wrong(std::string_view what, std::string_view text) {
  constexpr std::size_t kShownMax = 80;
  const bool cut = text.size() > kShownMax;
  return {Errc::InvalidArgument,
          fmt::format("'{}{}' {}", text.substr(0, kShownMax), cut ? "..." : "", what)};
}

/// Splits at each separator that is outside brackets. Nothing if brackets do not match.
std::optional<std::vector<std::string_view>> split_outside_brackets(std::string_view text) {
  std::vector<std::string_view> parts;
  bool inside = false;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[' || text[i] == ']') {
      if (inside == (text[i] == '[')) return std::nullopt;
      inside = !inside;
    } else if (text[i] == ',' && !inside) {
      parts.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  if (inside) return std::nullopt;
  parts.push_back(text.substr(begin));
  return parts;
}

/// Return the texts that "1-3,07-12" stands for; nothing if it makes no sense, or if there are too
/// many.
std::optional<std::vector<std::string>> numbers_in(std::string_view ranges) {
  std::vector<std::string> numbers;
  for (;;) {
    const std::size_t comma = ranges.find(',');
    const std::string_view range = ranges.substr(0, comma);
    const std::size_t dash = range.find('-');
    const std::string_view low = range.substr(0, dash);
    const std::string_view high = dash == std::string_view::npos ? low : range.substr(dash + 1);
    if (low.size() > kDigitsMax || high.size() > kDigitsMax) return std::nullopt;
    const auto from = number_in(low, std::numeric_limits<std::int64_t>::max());
    const auto to = number_in(high, std::numeric_limits<std::int64_t>::max());
    if (!from || !to || *to < *from) return std::nullopt;
    const auto more = static_cast<std::uint64_t>(*to) - static_cast<std::uint64_t>(*from);
    if (more >= kSlurmNodesMax - numbers.size()) return std::nullopt;
    for (std::uint64_t i = 0; i <= more; ++i)
      numbers.push_back(fmt::format("{:0>{}}", static_cast<std::uint64_t>(*from) + i, low.size()));
    if (comma == std::string_view::npos) return numbers;
    ranges.remove_prefix(comma + 1);
  }
}

/// Return the names that "r[1-2]n[1-3]" stands for.
std::optional<std::vector<std::string>> names_in(std::string_view part) {
  std::vector<std::string> names{""};
  while (!part.empty()) {
    const std::size_t bracket = std::min(part.find('['), part.size());
    const std::string_view plain = part.substr(0, bracket);
    if (!std::all_of(plain.begin(), plain.end(), is_name_character)) return std::nullopt;
    for (std::string& name : names) name += plain;
    part.remove_prefix(bracket);
    if (part.empty()) break;
    const std::size_t end = part.find(']');
    const auto numbers = numbers_in(part.substr(1, end - 1));
    if (!numbers || names.size() * numbers->size() > kSlurmNodesMax) return std::nullopt;
    std::vector<std::string> longer;
    for (const std::string& name : names)
      for (const std::string& number : *numbers) longer.push_back(name + number);
    names = std::move(longer);
    part.remove_prefix(end + 1);
  }
  const bool fits = std::all_of(names.begin(), names.end(), [](const std::string& name) {
    return !name.empty() && name.size() <= kNodeNameBytesMax;
  });
  return fits ? std::optional(std::move(names)) : std::nullopt;
}

/// Return the GPUs of a node in a job that asks for them by task; 0 in another job. Only on a node
/// of the job does Slurm say how many there are; elsewhere, we know what each task gets.
int gpus_asked_by_task(const EnvironmentMap& environment) {
  std::string of_task = variable(environment, "SLURM_GPUS_PER_TASK");           // "2", "a100:2"
  if (of_task.empty()) of_task = variable(environment, "SLURM_TRES_PER_TASK");  // "gres/gpu:2"
  if (of_task.empty()) return 0;
  if (const auto here = number_in(variable(environment, "SLURM_GPUS_ON_NODE"), kGpusMax))
    return static_cast<int>(*here);
  const auto each = number_in(std::string_view(of_task).substr(of_task.rfind(':') + 1), kGpusMax);
  const auto tasks = fewest_in(variable(environment, "SLURM_TASKS_PER_NODE"));
  return each && tasks ? static_cast<int>(std::min<std::int64_t>(*each * *tasks, kGpusMax)) : 0;
}

Error with_variable(Error error, const char* name) {
  return std::move(error).with_context(fmt::format("the variable {}", name));
}

}  // namespace

Result<std::vector<std::string>> parse_node_list(std::string_view text) {
  const auto parts = text.size() <= kNodeListBytesMax
                         ? split_outside_brackets(text)
                         : std::optional<std::vector<std::string_view>>();
  std::vector<std::string> nodes;
  if (!parts) return wrong("is no list of nodes", text);
  for (const std::string_view part : *parts) {
    auto names = names_in(part);
    if (!names) return wrong("is no list of nodes, or has too many", text);
    if (names->size() > kSlurmNodesMax - nodes.size())
      return wrong(fmt::format("has more than {} nodes", kSlurmNodesMax), text);
    std::move(names->begin(), names->end(), std::back_inserter(nodes));
  }
  return nodes;
}

Result<int> fewest_in(std::string_view counts) {
  std::int64_t fewest = kSlurmCpusMax + 1;
  for (std::string_view rest = counts;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t bracket = part.find("(x");
    const auto count = number_in(part.substr(0, bracket), kSlurmCpusMax);
    const bool repeated = bracket != std::string_view::npos;
    if (!count || *count == 0 || (repeated && !part.ends_with(')')))
      return wrong("is no list of numbers such as 4(x2),3", counts);
    fewest = std::min(fewest, *count);
    if (comma == std::string_view::npos) return static_cast<int>(fewest);
    rest.remove_prefix(comma + 1);
  }
}

Result<std::optional<SlurmAllocation>> read_slurm_allocation(const EnvironmentMap& environment) {
  SlurmAllocation allocation;
  allocation.job_id = variable(environment, "SLURM_JOB_ID");
  const std::string list = variable(environment, "SLURM_JOB_NODELIST");
  if (allocation.job_id.empty() || list.empty()) return std::optional<SlurmAllocation>();
  if (!number_in(allocation.job_id, std::numeric_limits<std::int64_t>::max()))
    return with_variable(wrong("is no number", allocation.job_id), "SLURM_JOB_ID");
  auto nodes = parse_node_list(list);
  if (!nodes) return with_variable(nodes.error(), "SLURM_JOB_NODELIST");
  allocation.nodes = std::move(*nodes);
  if (const std::string cpus = variable(environment, "SLURM_JOB_CPUS_PER_NODE"); !cpus.empty()) {
    const auto fewest = fewest_in(cpus);
    if (!fewest) return with_variable(fewest.error(), "SLURM_JOB_CPUS_PER_NODE");
    allocation.cpus = *fewest;
  }
  allocation.gpus_per_node = gpus_asked_by_task(environment);
  allocation.on_node = environment.contains("SLURMD_NODENAME");
  allocation.end = number_in(variable(environment, "SLURM_JOB_END_TIME"),
                             std::numeric_limits<std::int64_t>::max());
  const std::string tasks = variable(environment, "SLURM_STEP_NUM_TASKS");
  if (!tasks.empty() && tasks != "1")
    allocation.step_task = fmt::format("{} of {}", variable(environment, "SLURM_PROCID"), tasks);
  return std::optional(std::move(allocation));
}

// One traind on each node, with all that the job has there. --cpus-per-task must be said again:
// from 22.05 on, steps do not inherit it. --overlap: also in a job that has a step already, such as
// an interactive one.
std::vector<std::string> srun_arguments(const SlurmAllocation& allocation,
                                        const std::string& traind) {
  const std::size_t count = allocation.nodes.size();
  std::vector<std::string> words{fmt::format("--nodes={}", count),
                                 fmt::format("--ntasks={}", count),
                                 "--ntasks-per-node=1",
                                 fmt::format("--cpus-per-task={}", allocation.cpus),
                                 "--overlap",
                                 "--kill-on-bad-exit=0",
                                 "--no-kill",
                                 "--job-name=trainrun"};
  if (allocation.gpus_per_node > 0)
    words.push_back(fmt::format("--gpus-per-node={}", allocation.gpus_per_node));
  words.insert(words.end(),
               {traind, "--token-stdin", "--announce", "--leave-with-stdin", "--allow-root"});
  return words;
}

// Not what says what a node has, such as SLURM_CPUS_PER_TASK and SLURM_TMPDIR: programs use it.
bool is_of_slurm_task(std::string_view variable) {
  constexpr std::array<std::string_view, 22> kOfTask{
      "SLURM_NTASKS",   "SLURM_NPROCS",   "SLURM_PROCID",        "SLURM_LOCALID",
      "SLURM_NODEID",   "SLURM_GTIDS",    "SLURM_STEP",          "SLURM_TASKS_PER_NODE",
      "SLURM_TASK_PID", "SLURM_SRUN_",    "SLURM_LAUNCH_",       "SLURM_DISTRIBUTION",
      "SLURM_CPU_BIND", "SLURM_MEM_BIND", "SLURM_GPU_BIND",      "SLURM_PMI",
      "SLURM_MPI_TYPE", "SLURMD_",        "SLURM_TOPOLOGY_ADDR", "PMI_",
      "PMI2_",          "PMIX_"};
  return begins_with_one(variable, kOfTask);
}

// srun finds its job by the first; without the others, it may talk to another cluster.
EnvironmentMap srun_environment(const EnvironmentMap& environment) {
  constexpr std::array<std::string_view, 3> kForSrun{"SLURM_WORKING_CLUSTER", "SLURM_JWT",
                                                     "SLURM_DEBUG"};
  EnvironmentMap left = environment;
  std::erase_if(left, [&](const auto& entry) {
    const std::string_view name = entry.first;
    if (begins_with_one(name, kOfJob) || begins_with_one(name, kForSrun)) return false;
    return name.starts_with("SLURM_") || is_of_slurm_task(name) || name.starts_with("TRAINRUN_") ||
           names_a_secret(name);
  });
  return left;
}

std::optional<Announcement> parse_announcement(std::string_view line) {
  if (!line.starts_with(kAnnouncement)) return std::nullopt;
  line.remove_prefix(kAnnouncement.size());
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos) return std::nullopt;
  Announcement announcement{std::string(line.substr(0, space)),
                            std::string(line.substr(space + 1))};
  const std::size_t colon = announcement.endpoint.rfind(':');
  if (announcement.name.empty() || announcement.name.size() > kNodeNameBytesMax ||
      announcement.endpoint.size() > kNodeNameBytesMax + 8 || colon == 0 ||
      colon == std::string::npos || announcement.endpoint.find(' ') != std::string::npos)
    return std::nullopt;
  const auto port = number_in(std::string_view(announcement.endpoint).substr(colon + 1), 65'535);
  return port && *port > 0 ? std::optional(std::move(announcement)) : std::nullopt;
}

std::optional<std::int64_t> seconds_left_in(std::string_view text) {
  constexpr std::int64_t kMax = 1'000'000'000;  // longer than any job; keeps sums small
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  while (text.starts_with(' ')) text.remove_prefix(1);
  std::int64_t seconds = 0;
  const std::size_t dash = text.find('-');
  if (dash != std::string_view::npos) {
    const auto days = number_in(text.substr(0, dash), kMax);
    if (!days) return std::nullopt;
    seconds = *days * 24;  // hours, so far
    text.remove_prefix(dash + 1);
  }
  int parts = 0;
  for (;; ++parts) {
    const std::size_t colon = text.find(':');
    const auto number = number_in(text.substr(0, colon), kMax);
    if (!number || parts > 2) return std::nullopt;
    seconds = (parts == 0 ? seconds : seconds * 60) + *number;
    if (colon == std::string_view::npos) break;
    text.remove_prefix(colon + 1);
  }
  const bool whole = parts == 2 || (parts == 1 && dash == std::string_view::npos);
  return whole ? std::optional(seconds) : std::nullopt;
}

}  // namespace train
