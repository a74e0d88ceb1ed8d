#include "launcher/core/hang_detector.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>

#include "launcher/core/collective_tracker.h"

namespace train {
namespace {

using std::chrono::microseconds;
using std::chrono::minutes;

// Less is the noise of a process that only waits.
constexpr double kActiveCpuShare = 0.05;
constexpr std::int64_t kActiveBytesPerSecond = 64 << 10;
constexpr int kPatienceMax = 64;

double seconds_of(Duration duration) { return std::chrono::duration<double>(duration).count(); }

std::int64_t io_bytes(const ProcessSample& process) {
  return process.read_bytes + process.written_bytes;
}

bool is_active(std::int64_t cpu_us, std::int64_t bytes, Duration time) {
  return static_cast<double>(cpu_us) >= kActiveCpuShare * 1e6 * seconds_of(time) ||
         static_cast<double>(bytes) >= kActiveBytesPerSecond * seconds_of(time);
}

/// Return the least limit that can be learned for a phase; 0: none can, because a phase occurs
/// once, or may last any time.
Duration floor_of(Phase phase) {
  switch (phase) {
    case Phase::Data:
    case Phase::Step:
    case Phase::Collective:
      return minutes(1);
    case Phase::Report:
      return minutes(2);
    case Phase::Checkpoint:
    case Phase::Validate:
      return minutes(5);
    case Phase::None:
    case Phase::Start:
    case Phase::Restore:
    case Phase::Stop:
    case Phase::Own:
      return Duration{0};
  }
  return Duration{0};
}

std::string phase_text(const WorkerProgress& progress) {
  switch (progress.phase) {
    case Phase::None:
      return "";
    case Phase::Own:
      return progress.text.empty() ? fmt::format("'{}'", progress.name)
                                   : fmt::format("'{}' ({})", progress.name, progress.text);
    case Phase::Collective:
      return fmt::format("collective '{}' (call {})", progress.name, progress.collectives + 1);
    default:
      return progress.name.empty()
                 ? std::string(to_string(progress.phase))
                 : fmt::format("{} '{}'", to_string(progress.phase), progress.name);
  }
}

std::string process_text(const ProcessSample& process, std::int64_t cpu_us, Duration silence) {
  if (process.state == "T") return "its process is stopped by a signal";
  if (process.state == "D")
    return process.waits_in.empty()
               ? "its process waits in the kernel (state D)"
               : fmt::format("its process waits in the kernel, in {} (state D)", process.waits_in);
  if (is_active(cpu_us, 0, silence))
    return fmt::format("its processes use {:.0f} % of a CPU",
                       static_cast<double>(cpu_us) / 1e4 / std::max(1e-3, seconds_of(silence)));
  return "its processes are idle";
}

}  // namespace

struct HangDetector::Overview {
  std::map<std::uint64_t, bool> calls;  // completed by some rank → whether one of these is outside
  std::uint64_t fewest_checkpoints = std::numeric_limits<std::uint64_t>::max();
  bool unknown = false;                                   // a living rank has no new sample
  std::array<PhaseIntervals, kPhases.size()> silences{};  // how many, and the longest
  std::map<std::string, std::vector<Rank>> waiting;       // by phase_text

  bool makes_wait(const WorkerProgress& progress) const {
    if (progress.phase == Phase::Collective)
      return unknown || calls.begin()->first < progress.collectives ||
             calls.at(progress.collectives);
    if (progress.phase == Phase::Checkpoint)
      return unknown || fewest_checkpoints < progress.checkpoints;
    return false;
  }
};

void HangDetector::sampled(const RankSample& sample, TimePoint now) {
  Watched& watched = watched_[sample.rank];
  const RankSample& before = watched.newest;
  const bool another =
      watched.sampled_at == TimePoint{} || before.process.pid != sample.process.pid;
  if (another || before.progress.signs != sample.progress.signs) {
    watched.cpu_us = sample.process.cpu_us;
    watched.io_bytes = io_bytes(sample.process);
  }
  if (another ||
      is_active(sample.process.cpu_us - before.process.cpu_us,
                io_bytes(sample.process) - io_bytes(before.process), now - watched.sampled_at))
    watched.active_at = now;
  watched.newest = sample;
  watched.sampled_at = now;
}

bool HangDetector::is_judged(const Watched& watched, const RankTable::Entry& entry,
                             TimePoint now) const {
  const WorkerProgress& progress = watched.newest.progress;
  if (!entry.alive() || entry.paused || now - watched.sampled_at > kSampleAgeMax) return false;
  if (watched.newest.process.state == "t") return false;  // held by a debugger
  return progress.phase != Phase::None || config_.hang_timeout > Duration{0};
}

HangDetector::Overview HangDetector::overview(const RankTable& ranks, TimePoint now) const {
  Overview all;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!ranks.all()[i].alive()) continue;
    const auto watched = watched_.find(Rank{static_cast<int>(i)});
    if (watched == watched_.end() || now - watched->second.sampled_at > kSampleAgeMax) {
      all.unknown = true;
      continue;
    }
    const WorkerProgress& progress = watched->second.newest.progress;
    if (progress.phase == Phase::None) continue;
    all.calls[progress.collectives] |= progress.phase != Phase::Collective;
    all.fewest_checkpoints = std::min(all.fewest_checkpoints, progress.checkpoints);
  }
  for (const auto& [rank, watched] : watched_) {
    const WorkerProgress& progress = watched.newest.progress;
    for (std::size_t i = 0; i < std::min(all.silences.size(), progress.intervals.size()); ++i) {
      all.silences[i].count += progress.intervals[i].count;
      all.silences[i].longest_us =
          std::max(all.silences[i].longest_us, progress.intervals[i].longest_us);
    }
    const RankTable::Entry* entry = ranks.find(rank);
    if (entry != nullptr && is_judged(watched, *entry, now) && all.makes_wait(progress))
      all.waiting[phase_text(progress)].push_back(rank);
  }
  return all;
}

Duration HangDetector::silence_of(const Watched& watched) {
  if (watched.newest.progress.phase == Phase::None) return watched.sampled_at - watched.active_at;
  return microseconds(watched.newest.progress.quiet_us);
}

std::optional<HangDetector::Limit> HangDetector::limit_of(const Watched& watched,
                                                          const Overview& all) const {
  const WorkerProgress& progress = watched.newest.progress;
  const std::string name =
      progress.phase == Phase::Own ? progress.name : std::string(to_string(progress.phase));
  if (const auto given = config_.phase_timeouts.find(name); given != config_.phase_timeouts.end())
    return Limit{given->second, "phase_timeouts." + name};
  if (progress.limit_us > 0) return Limit{microseconds(progress.limit_us), "the program's limit"};
  const ProcessSample& process = watched.newest.process;
  const bool busy = progress.phase != Phase::None &&
                    is_active(process.cpu_us - watched.cpu_us, io_bytes(process) - watched.io_bytes,
                              silence_of(watched));
  if (config_.hang_timeout > Duration{0})
    return busy ? Limit{config_.hang_timeout * 2, "twice hang_timeout, since it is busy"}
                : Limit{config_.hang_timeout, "hang_timeout"};
  const PhaseIntervals& silences = all.silences[static_cast<std::size_t>(progress.phase)];
  const Duration floor = floor_of(progress.phase);
  if (floor == Duration{0} || silences.count < kSilencesToLearn) return std::nullopt;
  const Duration learned = microseconds(silences.longest_us) * kSilenceFactor;
  return Limit{std::max(floor, learned) * (busy ? 2 : 1) * watched.patience,
               "learned from the steps so far", true};
}

HangDetector::Verdict HangDetector::judge_one(const Watched& watched,
                                              const std::optional<Limit>& limit) const {
  if (!limit) return std::nullopt;
  const Duration silence = silence_of(watched);
  if (silence >= limit->time) return Finding::Kind::Hung;
  const bool told_before = watched.verdict.has_value();
  if (silence < limit->time / 2 || (limit->learned && !told_before)) return std::nullopt;
  // A rank that was accused under a shorter limit is not excused by a longer one.
  return watched.verdict == Finding::Kind::Hung ? watched.verdict
                                                : std::optional(Finding::Kind::Suspect);
}

std::vector<HangDetector::Finding> HangDetector::judge(const RankTable& ranks,
                                                       const NodePool& nodes, TimePoint now) {
  judged_at_ = now;
  const Overview all = overview(ranks, now);
  // Ranks of one node about which the same is to be said are named together.
  struct Group {
    std::vector<Rank> ranks;
    Limit limit;
  };
  std::map<std::tuple<Finding::Kind, std::string, std::string>, Group> groups;
  for (auto& [rank, watched] : watched_) {
    const RankTable::Entry* entry = ranks.find(rank);
    if (entry == nullptr || !is_judged(watched, *entry, now)) continue;
    const bool waits = all.makes_wait(watched.newest.progress);
    const auto limit = waits ? std::nullopt : limit_of(watched, all);
    const Verdict verdict = judge_one(watched, limit);
    if (verdict == watched.verdict) continue;
    const Finding::Kind kind = verdict.value_or(Finding::Kind::Cleared);
    if (kind == Finding::Kind::Cleared)
      watched.patience = std::min(watched.patience * 2, kPatienceMax);
    else
      watched.accused_at = silence_of(watched);
    watched.verdict = verdict;
    Group& group = groups[{kind, phase_text(watched.newest.progress), nodes.name(entry->node)}];
    group.ranks.push_back(rank);
    if (limit) group.limit = *limit;
  }
  std::vector<Finding> findings;
  for (auto& [key, group] : groups) {
    const auto& [kind, phase, node] = key;
    const bool fails = kind == Finding::Kind::Hung && config_.hang_action != HangAction::Observe &&
                       (!group.limit.learned || config_.hang_action == HangAction::Fail);
    std::string text = finding_text(kind, group.ranks, group.limit, all, node);
    findings.push_back({kind, std::move(group.ranks), fails, std::move(text)});
  }
  return findings;
}

std::string HangDetector::finding_text(Finding::Kind kind, const std::vector<Rank>& ranks,
                                       const Limit& limit, const Overview& all,
                                       const std::string& node) const {
  const Watched& first = watched_.at(ranks.front());
  const WorkerProgress& progress = first.newest.progress;
  const bool one = ranks.size() == 1;
  const auto verb = [one](const char* of_one, const char* of_many) {
    return one ? of_one : of_many;
  };
  const std::string who = fmt::format("{} on {}", list_ranks(ranks), node);
  if (kind == Finding::Kind::Cleared)
    return fmt::format("{} {} again, after a silence of {}", who, verb("moves", "move"),
                       format_duration(first.accused_at));
  const std::string silence = format_duration(silence_of(first));
  const std::string process = process_text(
      first.newest.process, first.newest.process.cpu_us - first.cpu_us, silence_of(first));
  const std::string step = progress.steps > 0 ? fmt::format(", step {}", progress.steps + 1) : "";
  const bool sdk = progress.phase != Phase::None;
  if (kind == Finding::Kind::Suspect) {
    const std::string since =
        sdk ? fmt::format("{} been in {} for {}{}", verb("has", "have"), phase_text(progress),
                          silence, step)
            : fmt::format("{} done nothing for {}", verb("has", "have"), silence);
    return fmt::format("{} {}; {}; after {} ({}) {} as hung", who, since, process,
                       format_duration(limit.time), limit.source, verb("it counts", "they count"));
  }
  const std::string where =
      sdk ? fmt::format(" in {}: no sign of life for {}{}", phase_text(progress), silence, step)
          : fmt::format(": {} done nothing for {}", verb("it has", "they have"), silence);
  std::string text = fmt::format("{} {}{}; {} (limit {}: {})", who, verb("hangs", "hang"), where,
                                 process, format_duration(limit.time), limit.source);
  for (const auto& [phase, waiting] : all.waiting)
    text += fmt::format("; {} {} in {}", list_ranks(waiting),
                        waiting.size() == 1 ? "waits" : "wait", phase);
  return text;
}

std::optional<TimePoint> HangDetector::next_deadline() const {
  if (watched_.empty()) return std::nullopt;
  return judged_at_ ? *judged_at_ + kJudgeEvery : TimePoint{};
}

}  // namespace train
