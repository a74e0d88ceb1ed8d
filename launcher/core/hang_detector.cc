#include "launcher/core/hang_detector.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <tuple>
#include <utility>

#include "launcher/core/collective_tracker.h"

namespace train {
namespace {

using std::chrono::microseconds;
using std::chrono::minutes;

// Less is the noise of a process that only waits.
constexpr double kActiveCpuShare = 0.05;
constexpr std::int64_t kActiveBytesPerSecond = 64 << 10;
constexpr int kPatienceMax = 64;
constexpr std::size_t kShownGroupsMax = 4;                         // of ranks
constexpr Duration kLearnedFromMax = std::chrono::hours(24 * 30);  // so that no limit overflows
constexpr Duration kLearnedFailMin = minutes(10);

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
    case Phase::Checkpoint:
    case Phase::Validate:
      return minutes(5);
    case Phase::None:
    case Phase::Start:
    case Phase::Restore:
    case Phase::Report:
    case Phase::Stop:
    case Phase::Own:
    case Phase::Once:
    case Phase::Wait:
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
    case Phase::Once:
      return fmt::format("once_per_node '{}'", progress.name);
    default:
      return progress.name.empty()
                 ? std::string(to_string(progress.phase))
                 : fmt::format("{} '{}'", to_string(progress.phase), progress.name);
  }
}

// The order in which ranks are blamed: who is held, then the others.
enum class Hold { Signal, Kernel, None };

Hold hold_of(const ProcessSample& process) {
  if (process.state == "T") return Hold::Signal;
  return process.state == "D" ? Hold::Kernel : Hold::None;
}

}  // namespace

struct HangDetector::Overview {
  struct Ranks {                // that have completed equally many collective calls
    std::vector<Rank> outside;  // in none
    std::map<std::string, std::vector<Rank>> inside = {};  // by the name of the next call
  };
  struct Waiting {
    std::vector<Rank> ranks = {};
    std::uint64_t completed = 0;  // calls, of those that wait in the next one
    bool collective = false;
  };
  std::map<std::uint64_t, Ranks> calls;                   // by how many they have completed
  std::set<std::pair<NodeId, std::string>> own;           // phases that ranks of a node are in
  std::vector<Rank> unknown;                              // living ranks without a new sample
  std::array<PhaseIntervals, kPhases.size()> silences{};  // the most of one rank, and the longest
  std::map<std::string, Waiting> waiting;                 // by phase_text
  std::optional<TimePoint> held_since;                    // by the rank that is held longest
  std::vector<Rank> excused;                              // silent, since another rank is held

  bool makes_wait(const WorkerProgress& progress, NodeId node) const {
    if (progress.phase == Phase::Once)
      return !unknown.empty() || own.count({node, progress.name}) != 0;
    if (progress.phase != Phase::Collective) return false;
    return !unknown.empty() || calls.begin()->first < progress.collectives ||
           !calls.at(progress.collectives).outside.empty();
  }
  std::string missing_in(const Waiting& who) const;
  std::string others_in(const WorkerProgress& progress) const;
};

// Return who has not entered the call in which these ranks wait, and how many calls each has made.
std::string HangDetector::Overview::missing_in(const Waiting& who) const {
  std::vector<std::string> missing;
  const auto add = [&](std::vector<Rank> ranks, std::uint64_t completed) {
    if (ranks.empty()) return;
    std::sort(ranks.begin(), ranks.end());
    missing.push_back(fmt::format("{} ({} {} made)", list_ranks(ranks), completed,
                                  completed == 1 ? "call" : "calls"));
  };
  for (const auto& [completed, ranks] : calls) {
    std::vector<Rank> behind = ranks.outside;
    if (completed < who.completed) {
      for (const auto& [name, inside] : ranks.inside)
        behind.insert(behind.end(), inside.begin(), inside.end());
    }
    if (completed <= who.completed) add(std::move(behind), completed);
  }
  if (!unknown.empty()) missing.push_back(fmt::format("{} (not seen)", list_ranks(unknown)));
  if (missing.size() > kShownGroupsMax) {
    missing.resize(kShownGroupsMax);
    missing.push_back("…");
  }
  return fmt::format(", not entered by {}", fmt::join(missing, ", "));
}

// Return where the others are if a rank hangs in a call to which all have come: in another call, or
// in the same one.
std::string HangDetector::Overview::others_in(const WorkerProgress& progress) const {
  const auto found = calls.find(progress.collectives);
  if (progress.phase != Phase::Collective || !unknown.empty() || calls.size() != 1 ||
      found == calls.end() || !found->second.outside.empty())
    return "";
  const auto& inside = found->second.inside;
  if (inside.size() == 1)
    return inside.begin()->second.size() == 1
               ? ""
               : "; all ranks are in this call, so look at the network or the devices between them";
  std::string text = "; the ranks have entered different calls:";
  std::size_t shown = 0;
  for (const auto& [name, ranks] : inside) {
    if (++shown > kShownGroupsMax) return text + ", …";
    text += fmt::format("{} {} '{}'", shown == 1 ? "" : ",", list_ranks(ranks), name);
  }
  return text;
}

void HangDetector::sampled(const RankSample& sample, TimePoint now) {
  Watched& watched = watched_[sample.rank];
  const RankSample& before = watched.newest;
  const bool another =
      watched.sampled_at == TimePoint{} || before.process.pid != sample.process.pid;
  const bool moved = another || before.progress.signs != sample.progress.signs;
  const Duration between = now - watched.sampled_at;
  const bool active = between > Duration{0} &&
                      is_active(sample.process.cpu_us - before.process.cpu_us,
                                io_bytes(sample.process) - io_bytes(before.process), between);
  if (another || active) watched.active_at = now;
  if (another) watched.waited_at = now;
  const Hold hold = hold_of(sample.process);
  if (hold == Hold::None)
    watched.held_since.reset();
  else if (!watched.held_since || moved || active || hold != hold_of(before.process))
    watched.held_since = now;
  watched.newest = sample;
  watched.sampled_at = now;
  const Usage used{now, sample.process.cpu_us, io_bytes(sample.process)};
  if (moved) {
    watched.used_before = watched.used_lately = used;
  } else if (now - watched.used_lately.at >= silence_of(watched) / 4) {
    watched.used_before = std::exchange(watched.used_lately, used);
  }
}

/// Return whether its processes have computed, read or written lately.
bool HangDetector::is_busy(const Watched& watched) {
  const ProcessSample& process = watched.newest.process;
  const Duration time = watched.sampled_at - watched.used_before.at;
  return time > Duration{0} && is_active(process.cpu_us - watched.used_before.cpu_us,
                                         io_bytes(process) - watched.used_before.io_bytes, time);
}

std::string HangDetector::process_text(const Watched& watched) {
  const ProcessSample& process = watched.newest.process;
  const std::string call = process.waits_for.empty() ? "" : ", in " + process.waits_for;
  switch (hold_of(process)) {
    case Hold::Signal:
      return "its process is stopped by a signal";
    case Hold::Kernel:
      return process.waits_in.empty()
                 ? fmt::format("its process waits in the kernel{} (state D)", call)
                 : fmt::format("its process waits in the kernel{}, in {} (state D)", call,
                               process.waits_in);
    case Hold::None:
      break;
  }
  if (!is_busy(watched)) return "its processes are idle" + call;
  const Duration time = watched.sampled_at - watched.used_before.at;
  const std::int64_t cpu_us = process.cpu_us - watched.used_before.cpu_us;
  if (is_active(cpu_us, 0, time))
    return fmt::format("its processes use {:.0f} % of a CPU",
                       static_cast<double>(cpu_us) / 1e4 / seconds_of(time));
  return "its processes read and write";
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
      all.unknown.push_back(Rank{static_cast<int>(i)});
      continue;
    }
    const WorkerProgress& progress = watched->second.newest.progress;
    // A program that has not called the SDK yet has made no calls.
    Overview::Ranks& ranks_there = all.calls[progress.collectives];
    (progress.phase == Phase::Collective ? ranks_there.inside[progress.name] : ranks_there.outside)
        .push_back(watched->first);
    if (progress.phase == Phase::Own) all.own.insert({ranks.all()[i].node, progress.name});
  }
  for (const auto& [rank, watched] : watched_) {
    const WorkerProgress& progress = watched.newest.progress;
    for (std::size_t i = 0; i < std::min(all.silences.size(), progress.intervals.size()); ++i) {
      PhaseIntervals& most = all.silences[i];
      most.count = std::max(most.count, progress.intervals[i].count);
      most.longest_us = std::max(most.longest_us, progress.intervals[i].longest_us);
    }
    const RankTable::Entry* entry = ranks.find(rank);
    if (entry == nullptr || !is_judged(watched, *entry, now) ||
        !all.makes_wait(progress, entry->node))
      continue;
    Overview::Waiting& waiting = all.waiting[phase_text(progress)];
    waiting.ranks.push_back(rank);
    waiting.completed = progress.collectives;
    waiting.collective = progress.phase == Phase::Collective;
  }
  return all;
}

/// Find since when a rank is held that will be accused for it, and whom that excuses.
void HangDetector::find_held(const RankTable& ranks, TimePoint now, Overview& all) const {
  for (const auto& [rank, watched] : watched_) {
    const RankTable::Entry* entry = ranks.find(rank);
    if (entry == nullptr || !watched.held_since || !is_judged(watched, *entry, now)) continue;
    const bool waits = all.makes_wait(watched.newest.progress, entry->node);
    if (!waits && limit_of(watched, all))
      all.held_since = std::min(all.held_since.value_or(now), *watched.held_since);
  }
  if (!all.held_since) return;
  const Duration held_for = now - *all.held_since;
  for (const auto& [rank, watched] : watched_) {
    const RankTable::Entry* entry = ranks.find(rank);
    if (entry == nullptr || watched.held_since || !is_judged(watched, *entry, now)) continue;
    if (watched.newest.progress.phase != Phase::None) continue;
    const Duration silence = silence_of(watched);
    if (silence <= 2 * held_for && silence >= held_for / 2) all.excused.push_back(rank);
  }
}

Duration HangDetector::silence_of(const Watched& watched) {
  if (watched.newest.progress.phase == Phase::None) return watched.sampled_at - watched.active_at;
  return microseconds(watched.newest.progress.quiet_us);
}

/// Return that part of its silence which no other rank explains.
Duration HangDetector::judged_silence(const Watched& watched) {
  const Phase phase = watched.newest.progress.phase;
  const bool may_wait = phase == Phase::Collective || phase == Phase::Once;
  const Duration silence =
      std::min<Duration>(silence_of(watched), watched.sampled_at - watched.excused_at);
  return may_wait ? std::min<Duration>(silence, watched.sampled_at - watched.waited_at) : silence;
}

std::optional<HangDetector::Limit> HangDetector::limit_of(const Watched& watched,
                                                          const Overview& all) const {
  const WorkerProgress& progress = watched.newest.progress;
  const std::string name =
      progress.phase == Phase::Own ? progress.name : std::string(to_string(progress.phase));
  if (const auto given = config_.phase_timeouts.find(name); given != config_.phase_timeouts.end())
    return Limit{given->second, "phase_timeouts." + name};
  if (progress.limit_us > 0) return Limit{microseconds(progress.limit_us), "the program's limit"};
  // These wait for train-run and its storage, which have limits of their own.
  const ProcessSample& process = watched.newest.process;
  const bool waits_for_us = progress.phase == Phase::Wait || progress.phase == Phase::Report;
  if (waits_for_us && process.state != "T") return std::nullopt;
  const bool busy = progress.phase != Phase::None && is_busy(watched);
  if (config_.hang_timeout > Duration{0})
    return busy ? Limit{config_.hang_timeout * 2, "twice hang_timeout, since it is busy"}
                : Limit{config_.hang_timeout, "hang_timeout"};
  const PhaseIntervals& silences = all.silences[static_cast<std::size_t>(progress.phase)];
  const Duration floor = floor_of(progress.phase);
  if (floor == Duration{0} || silences.count < kSilencesToLearn) return std::nullopt;
  const Duration longest = std::min<Duration>(microseconds(silences.longest_us), kLearnedFromMax);
  Duration learned = std::max(floor, longest * kSilenceFactor);
  if (may_fail_by_learned()) learned = std::max(learned, kLearnedFailMin);
  return Limit{learned * (busy ? 2 : 1) * watched.patience, "learned from the steps so far", true};
}

HangDetector::Verdict HangDetector::judge_one(const Watched& watched,
                                              const std::optional<Limit>& limit) const {
  if (watched.verdict == Finding::Kind::Hung) return watched.verdict;  // until it moves
  if (!limit) return watched.verdict;
  const Duration silence = judged_silence(watched);
  if (silence >= limit->time) return Finding::Kind::Hung;
  if (silence < limit->time / 2 || limit->learned) return watched.verdict;
  return Finding::Kind::Suspect;
}

/// Return whether the rank has shown a sign of life since it was accused.
bool HangDetector::has_moved(const Watched& watched) {
  const WorkerProgress& progress = watched.newest.progress;
  return progress.signs != watched.accused_signs ||
         (progress.phase == Phase::None && watched.active_at > watched.accused_when);
}

std::vector<HangDetector::Finding> HangDetector::judge(const RankTable& ranks,
                                                       const NodePool& nodes, TimePoint now) {
  judged_at_ = now;
  Overview all = overview(ranks, now);
  find_held(ranks, now, all);
  for (const Rank rank : all.excused) watched_.at(rank).excused_at = now;
  // Ranks of one node about which the same is to be said are named together. Who is held comes
  // first: the first one is blamed.
  struct Group {
    std::vector<Rank> ranks;
    Limit limit;
  };
  std::map<std::tuple<Finding::Kind, Hold, std::string, std::string>, Group> groups;
  for (auto& [rank, watched] : watched_) {
    const RankTable::Entry* entry = ranks.find(rank);
    if (entry == nullptr || !is_judged(watched, *entry, now)) continue;
    const WorkerProgress& progress = watched.newest.progress;
    std::optional<Limit> limit;
    if (watched.verdict && has_moved(watched)) {
      watched.verdict.reset();
      watched.fails = false;
      learned_was_wrong_ |= watched.learned_limit.has_value();
      watched.learned_limit.reset();
      watched.patience = std::min(watched.patience * 2, kPatienceMax);
      groups[{Finding::Kind::Cleared, Hold::None, "", nodes.name(entry->node)}].ranks.push_back(
          rank);
      continue;
    }
    if (all.makes_wait(progress, entry->node))
      watched.waited_at = now;
    else
      limit = limit_of(watched, all);
    const Verdict verdict = judge_one(watched, limit);
    if (verdict == watched.verdict) continue;
    watched.verdict = verdict;
    watched.accused_for = silence_of(watched);
    watched.accused_signs = progress.signs;
    watched.accused_when = now;
    watched.fails = verdict == Finding::Kind::Hung && fails_by(*limit);
    if (verdict == Finding::Kind::Hung && limit->learned) watched.learned_limit = limit->time;
    Group& group = groups[{*verdict, hold_of(watched.newest.process), phase_text(progress),
                           nodes.name(entry->node)}];
    group.ranks.push_back(rank);
    group.limit = *limit;
  }
  std::vector<Finding> findings;
  for (auto& [key, group] : groups) {
    const auto& [kind, hold, phase, node] = key;
    std::string text = finding_text(kind, group.ranks, group.limit, all, node);
    for (const Rank rank : group.ranks) watched_.at(rank).said = text;
    const bool fails = watched_.at(group.ranks.front()).fails;
    findings.push_back({kind, std::move(group.ranks), fails, std::move(text)});
  }
  return findings;
}

bool HangDetector::may_fail_by_learned() const {
  return config_.hang_action == HangAction::Fail ||
         (config_.hang_action == HangAction::Auto && trusts_learned_);
}

bool HangDetector::fails_by(const Limit& limit) const {
  return config_.hang_action != HangAction::Observe && (!limit.learned || may_fail_by_learned());
}

HangDetector::Learned HangDetector::learned() const {
  bool right = false;
  for (const auto& [rank, watched] : watched_) {
    if (!watched.learned_limit) continue;
    if (has_moved(watched)) return Learned::Wrong;
    right |= judged_silence(watched) >= 2 * *watched.learned_limit;
  }
  if (learned_was_wrong_) return Learned::Wrong;
  return right ? Learned::Right : Learned::Unknown;
}

std::optional<HangDetector::Finding> HangDetector::failing(const RankTable& ranks,
                                                           TimePoint now) const {
  const std::pair<const Rank, Watched>* first = nullptr;
  for (const auto& each : watched_) {
    const auto& [rank, watched] = each;
    const RankTable::Entry* entry = ranks.find(rank);
    if (entry == nullptr || !watched.fails || !is_judged(watched, *entry, now) ||
        has_moved(watched))
      continue;
    if (first == nullptr || hold_of(watched.newest.process) < hold_of(first->second.newest.process))
      first = &each;
  }
  if (first == nullptr) return std::nullopt;
  const auto phase_of = [](const Watched& watched) {
    const WorkerProgress& progress = watched.newest.progress;
    return std::pair(progress.phase, progress.name);
  };
  Finding found{Finding::Kind::Hung, {first->first}, true, first->second.said};
  found.marks = phase_of(first->second).first != Phase::None;
  for (const auto& [rank, watched] : watched_) {
    const RankTable::Entry* entry = ranks.find(rank);
    if (entry != nullptr && entry->alive() && watched.fails && !has_moved(watched) &&
        !watched.held_since && phase_of(watched) == phase_of(first->second))
      found.alike.push_back(rank);
  }
  return found;
}

bool HangDetector::accuses(const RankTable& ranks) const {
  return std::any_of(watched_.begin(), watched_.end(), [&](const auto& each) {
    const auto& [rank, watched] = each;
    const RankTable::Entry* entry = ranks.find(rank);
    return entry != nullptr && entry->alive() && watched.fails && !has_moved(watched);
  });
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
                       format_duration(first.accused_for));
  const std::string silence = format_duration(silence_of(first));
  const std::string process = process_text(first);
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
  if (!first.held_since) text += all.others_in(progress);
  if (first.held_since && !all.excused.empty())
    text += fmt::format("; {} {} nothing either, and may wait for {}", list_ranks(all.excused),
                        all.excused.size() == 1 ? "does" : "do", one ? "it" : "them");
  for (const auto& [phase, waiting] : all.waiting)
    text += fmt::format("; {} {} in {}{}", list_ranks(waiting.ranks),
                        waiting.ranks.size() == 1 ? "waits" : "wait", phase,
                        waiting.collective ? all.missing_in(waiting) : "");
  return text;
}

std::optional<TimePoint> HangDetector::next_deadline() const {
  if (watched_.empty()) return std::nullopt;
  return judged_at_ ? *judged_at_ + kJudgeEvery : TimePoint{};
}

}  // namespace train
