#include "daemon/supervisor/workers/profile_taker.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "daemon/supervisor/processes/process_sampler.h"
#include "lib/net/blocking.h"
#include "lib/profile/profile_codec.h"
#include "lib/profile/sampling/take_profile.h"
#include "lib/stacks/proc_files.h"

namespace train {
namespace {

constexpr std::size_t kPieceBytes = 1u << 20;  // a quarter of a frame

/// List the processes of a rank: the one that matters first. None, once the worker has ended.
ListProcesses processes_of(pid_t root, pid_t program) {
  return [root, program, began = process_began(root)] {
    std::vector<ProfiledProcess> found;
    if (began == 0 || process_began(root) != began) return found;
    for (const pid_t pid : process_tree(root)) {
      ProfiledProcess process{.pid = pid};
      if (pid != program) process.other_process = thread_facts(pid, pid).name;
      found.insert(pid == program ? found.begin() : found.end(), std::move(process));
    }
    return found;
  };
}

}  // namespace

asio::awaitable<void> ProfileTaker::take(TakeProfile order) {
  const Rank rank{order.rank};
  const auto slot = slots_.find(rank);
  const auto kind = profile_kind(order.kind);
  std::string refused;
  if (!kind)
    refused = fmt::format("this traind knows no profile of kind '{}'", order.kind);
  else if (slot == slots_.end() || slot->second.pid <= 0 || slot->second.exit)
    refused = fmt::format("rank {} has no worker now", order.rank);
  else if (busy_.contains(rank))
    refused = fmt::format("another profile of rank {} is being taken", order.rank);
  else if (busy_.size() >= kAtATime)
    refused = fmt::format("{} other profiles are being taken on its node", kAtATime);
  if (!refused.empty()) {
    uplink_.send(ProfileTaken{order.request, {}, true, refused});
    co_return;
  }
  busy_.insert(rank);
  const auto root = static_cast<pid_t>(slot->second.pid);
  const auto program = static_cast<pid_t>(sample_processes(root, slot->second.program).pid);
  const Duration time =
      std::clamp<Duration>(milliseconds(order.time_ms), milliseconds(1), kProfileTimeMax);
  const SamplingOrder sampling{
      .kind = *kind, .time = time, .processes = processes_of(root, program)};
  std::function<Result<Profile>()> work = [sampling] { return take_profile(sampling); };
  auto taking = run_unjoined<Profile>(std::move(work));
  const auto taken = co_await std::move(taking);
  busy_.erase(rank);
  const std::string bytes = taken ? encode_profile(*taken) : "";
  std::size_t at = 0;
  for (; bytes.size() - at > kPieceBytes; at += kPieceBytes)
    uplink_.send(ProfileTaken{order.request, bytes.substr(at, kPieceBytes), false, {}});
  uplink_.send(
      ProfileTaken{order.request, bytes.substr(at), true, taken ? "" : taken.error().describe()});
}

}  // namespace train
