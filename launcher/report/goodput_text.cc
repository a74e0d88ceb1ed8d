#include "launcher/report/goodput_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "lib/base/json_text.h"

namespace train {
namespace {

constexpr double kAdviceShareMin = 0.05;
constexpr Duration kAdvisedTimeMin = seconds(60);  // of workers: less says little about a job
constexpr std::size_t kUsesShown = 5;

/// Return the uses but Step, the largest first.
std::vector<TimeUse> by_size(const TimeAccounts& time) {
  std::vector<TimeUse> uses;
  for (std::size_t i = 0; i < kTimeUses.size(); ++i) {
    if (static_cast<TimeUse>(i) != TimeUse::Step) uses.push_back(static_cast<TimeUse>(i));
  }
  std::stable_sort(uses.begin(), uses.end(),
                   [&](TimeUse a, TimeUse b) { return time[a] > time[b]; });
  return uses;
}

long percent(const TimeAccounts& time, TimeUse use) { return std::lround(time.share(use) * 100); }

/// Return what helps against this use, after "it takes N % of the time: "; empty: nothing that is
/// obvious.
std::string_view remedy(TimeUse use) {
  switch (use) {
    case TimeUse::Data:
      return "prepare more batches ahead (prefetch_batches), or do less work for each";
    case TimeUse::Checkpoint:
      return "make checkpoints less often, or have them written beside training "
             "(Checkpoint::from_state)";
    case TimeUse::Validate:
      return "validate beside training (checkpoint_config.validation), or less often";
    case TimeUse::Report:
      return "report less often, or fewer metrics at a time";
    case TimeUse::Lost:
      return "make checkpoints more often";
    case TimeUse::Down:
      return "keep processes ready (scaling_config.standby_workers), or let the group go on with "
             "fewer workers (num_workers: {min, max})";
    case TimeUse::Hung:
      return "a shorter hang_timeout ends hangs sooner";
    case TimeUse::Step:
    case TimeUse::Start:
    case TimeUse::Restore:
    case TimeUse::Collective:
    case TimeUse::Paused:
    case TimeUse::Unknown:
    case TimeUse::Other:
      return "";
  }
  return "";
}

}  // namespace

bool says_anything(const TimeAccounts& time) {
  const Duration without_sdk =
      time[TimeUse::Unknown] + time[TimeUse::Start] + time[TimeUse::Down] + time[TimeUse::Other];
  return time.total() > without_sdk ||
         (time[TimeUse::Unknown] == Duration{} && without_sdk > Duration{});
}

std::string goodput_text(const TimeAccounts& time) {
  if (!says_anything(time)) return "";
  std::string others;
  std::size_t shown = 0;
  for (const TimeUse use : by_size(time)) {
    if (percent(time, use) < 1 || ++shown > kUsesShown) break;
    others +=
        fmt::format("{}{} {}", others.empty() ? "" : ", ", to_string(use), percent(time, use));
  }
  const std::string goodput = fmt::format("{} %", percent(time, TimeUse::Step));
  return others.empty() ? goodput : fmt::format("{} ({})", goodput, others);
}

std::string goodput_advice(const TimeAccounts& time) {
  if (!says_anything(time) || time.total() < kAdvisedTimeMin) return "";
  for (const TimeUse use : by_size(time)) {
    if (time.share(use) <= kAdviceShareMin) break;
    if (!remedy(use).empty())
      return fmt::format("{} takes {} % of the time: {}", to_string(use), percent(time, use),
                         remedy(use));
  }
  return "";
}

void put_seconds(JsonWriter& json, const TimeAccounts& time) {
  json.object();
  for (std::size_t i = 0; i < kTimeUses.size(); ++i) {
    const Duration used = time[static_cast<TimeUse>(i)];
    if (used > Duration{}) json.member(kTimeUses[i], std::chrono::duration<double>(used).count());
  }
  json.end();
}

void put_goodput(JsonWriter& json, const TimeAccounts& time) {
  json.key("goodput");
  if (time.total() == Duration{}) {
    json.null();
    return;
  }
  json.object().member("ratio", time.share(TimeUse::Step)).key("worker_seconds");
  put_seconds(json, time);
  json.end();
}

std::string goodput_json(std::uint32_t attempt, int world_size, const TimeAccounts& of_attempt,
                         const TimeAccounts& of_run, std::chrono::system_clock::time_point now) {
  JsonWriter json;
  json.object().member("attempt", attempt).member("world_size", world_size);
  json.member("t", format_utc(now)).key("worker_seconds");
  put_seconds(json, of_attempt);
  json.key("run").object().key("worker_seconds");
  put_seconds(json, of_run);
  return std::move(json.end().end()).take() + "\n";
}

}  // namespace train
