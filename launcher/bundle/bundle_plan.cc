#include "launcher/bundle/bundle_plan.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <utility>

namespace train {
namespace {

constexpr std::uint64_t kWholeFileMax = 8u << 20;    // of a file that is small unless it is damaged
constexpr std::uint64_t kSeriesBytesMax = 1u << 20;  // of a file of numbers
constexpr std::uint64_t kSamplesBytesMax = 4u << 20;
constexpr std::uint64_t kShareMin = 512;  // less of a file tells nothing

/// The kinds of files, the most telling first.
enum class Kind { Facts, Story, Stacks, Manifests, Series, Samples, Output, Rest, None };

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool has_extension(std::string_view name, std::initializer_list<std::string_view> extensions) {
  return std::any_of(extensions.begin(), extensions.end(),
                     [&](std::string_view extension) { return name.ends_with(extension); });
}

std::vector<std::string_view> components_of(std::string_view path) {
  std::vector<std::string_view> components;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    components.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return components;
}

Kind kind_at_top(std::string_view name) {
  if (is_one_of(name, {"spec.yaml", "spec.resolved.yaml", "run.json", "exit.json", ".lock"}))
    return Kind::Facts;
  if (is_one_of(name, {"events.jsonl", "launcher.log", "setup.log"}) ||
      name.starts_with("train-run.log"))
    return Kind::Story;
  if (is_one_of(name, {"samples.jsonl", ".samples.now.jsonl"})) return Kind::Samples;
  return is_one_of(name, {"metrics.jsonl", "progress.csv"}) ? Kind::Series : Kind::None;
}

Kind kind_in_attempt(const std::vector<std::string_view>& path) {
  const std::string_view name = path.back();
  if (is_one_of(name, {"cause.json", "error.json"})) return Kind::Facts;
  if (path.size() > 3 && path[2] == "stacks") return Kind::Stacks;
  if (name.starts_with("core.")) return name.ends_with(".txt") ? Kind::Stacks : Kind::None;
  if (name.starts_with("stdout.log") || name.starts_with("stderr.log")) return Kind::Output;
  return has_extension(name, {".json", ".jsonl", ".txt", ".log", ".csv"}) ? Kind::Rest : Kind::None;
}

Kind kind_of(const std::vector<std::string_view>& path) {
  if (path.size() == 1) return kind_at_top(path[0]);
  if (path[0] == "checkpoints")
    return is_one_of(path.back(), {".manifest.json", ".validation.json"}) ? Kind::Manifests
                                                                          : Kind::None;
  return path[0] == "attempts" && path.size() > 2 ? kind_in_attempt(path) : Kind::None;
}

std::string why_left_out(const std::vector<std::string_view>& path) {
  if (path[0] == "checkpoints") return "data of a checkpoint";
  if (path.back() == ".owner") return "the run's key";
  if (path.back() == "output.times") return "of use only with all output";
  if (path.back().starts_with("core.")) return "memory of a worker, which holds all its secrets";
  return "not known to be text of train-run";
}

std::uint64_t most_of(Kind kind) {
  switch (kind) {
    case Kind::Facts:
    case Kind::Stacks:
    case Kind::Manifests:
      return kWholeFileMax;
    case Kind::Series:
      return kSeriesBytesMax;
    case Kind::Samples:
      return kSamplesBytesMax;
    case Kind::Story:
    case Kind::Output:
    case Kind::Rest:
    case Kind::None:
      break;
  }
  return UINT64_MAX;
}

/// Return the number of the attempt that the path is in. What is in none comes before all attempts.
std::int64_t attempt_of(const std::vector<std::string_view>& path) {
  std::int64_t number = INT32_MAX;
  if (path.size() > 1 && path[0] == "attempts")
    std::from_chars(path[1].data(), path[1].data() + path[1].size(), number);
  return number;
}

/// Take so many bytes of a file: its beginning and its end, or only its end if that is newer and
/// tells the same.
BundlePart part_of(BundleCandidate file, Kind kind, std::uint64_t bytes) {
  std::uint64_t head = kind == Kind::Samples ? 0 : bytes / 2;
  if (bytes == file.bytes) head = bytes;
  return {.path = std::move(file.path), .bytes = file.bytes, .head = head, .tail = bytes - head};
}

/// Share `room` among files of a kind: those that need less than an equal share leave the rest to
/// the others.
void share(std::vector<BundleCandidate> files, Kind kind, std::uint64_t room, BundlePlan& plan,
           std::uint64_t& used) {
  std::sort(files.begin(), files.end(), [](const BundleCandidate& a, const BundleCandidate& b) {
    return std::pair(a.bytes, a.path) < std::pair(b.bytes, b.path);
  });
  std::size_t left = files.size();
  for (BundleCandidate& file : files) {
    const std::uint64_t bytes = std::min({file.bytes, room / left--, most_of(kind)});
    if (bytes < std::min(file.bytes, kShareMin)) {
      plan.left_out.push_back({std::move(file.path), file.bytes, "no room (--max-bytes)"});
      continue;
    }
    plan.parts.push_back(part_of(std::move(file), kind, bytes));
    room -= bytes;
    used += bytes;
  }
}

}  // namespace

BundlePlan plan_bundle(std::vector<BundleCandidate> files, std::uint64_t bytes_max) {
  BundlePlan plan;
  // Groups by kind; within a kind, newer attempts first.
  std::map<std::pair<Kind, std::int64_t>, std::vector<BundleCandidate>> groups;
  for (BundleCandidate& file : files) {
    const auto path = components_of(file.path);
    const Kind kind = kind_of(path);
    if (kind == Kind::None) {
      std::string why = why_left_out(path);
      plan.left_out.push_back({std::move(file.path), file.bytes, std::move(why)});
    } else {
      groups[{kind, -attempt_of(path)}].push_back(std::move(file));
    }
  }
  std::uint64_t room = bytes_max;
  for (auto group = groups.begin(); group != groups.end(); ++group) {
    const bool last = std::next(group) == groups.end();
    const std::size_t first = plan.parts.size();
    std::uint64_t used = 0;
    share(std::move(group->second), group->first.first, last ? room : room / 2, plan, used);
    room -= used;
    std::sort(plan.parts.begin() + static_cast<std::ptrdiff_t>(first), plan.parts.end(),
              [](const BundlePart& a, const BundlePart& b) { return a.path < b.path; });
  }
  std::sort(plan.left_out.begin(), plan.left_out.end(),
            [](const LeftOut& a, const LeftOut& b) { return a.path < b.path; });
  return plan;
}

bool is_bundled_folder(std::string_view path) {
  const auto components = components_of(path);
  if (components[0] == "attempts") return true;
  if (components[0] != "checkpoints" || components.size() > 2) return false;
  return components.size() == 1 || components[1].starts_with("checkpoint_");
}

}  // namespace train
