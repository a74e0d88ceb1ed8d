#include "daemon/supervisor/workers/waiting_workers.h"

#include <signal.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/supervisor/processes/execute_anew.h"
#include "lib/net/within.h"

namespace train {
namespace {

constexpr std::int64_t kPatienceMsMax = 600'000;
constexpr Duration kLookAgainEvery = milliseconds(10);

}  // namespace

Result<std::string> WaitingWorkers::take(FileDescriptor file) {
  TRY(KeptWorkers kept, read_kept(std::move(file)));
  known_ = std::move(kept.known);
  handed_on_ = kept.workers.size();
  code_ = std::move(kept.code);
  std::vector<StandbyProcess> workers;
  for (KeptWorker& worker : kept.workers)
    workers.push_back({.number = worker.rank,
                       .process = {.pid = static_cast<pid_t>(worker.pid),
                                   .stdout_fd = worker.stdout_fd,
                                   .stderr_fd = worker.stderr_fd},
                       .cgroup = parts_.confinement.group_without_claim(worker.group),
                       .env = std::move(worker.env),
                       .mark = std::move(worker.mark),
                       .group = std::move(worker.group)});
  parts_.standbys.keep(std::move(workers), known_.gpus);
  return std::move(kept.unread);
}

std::uint32_t WaitingWorkers::count() {
  return handed_on_ > 0 ? static_cast<std::uint32_t>(parts_.standbys.reap()) : 0;
}

KeptWorkers WaitingWorkers::to_hand_on(SupervisorHello known, std::string code,
                                       std::string unread) const {
  KeptWorkers kept{.known = std::move(known),
                   .workers = {},
                   .unread = std::move(unread),
                   .code = std::move(code)};
  for (const auto& [rank, slot] : parts_.slots) {
    if (slot.stayed <= 0) continue;  // it has died since
    kept.workers.push_back({.rank = rank.value,
                            .pid = slot.stayed,
                            .stdout_fd = slot.streams[0].rest.get(),
                            .stderr_fd = slot.streams[1].rest.get(),
                            .mark = slot.mark(),
                            .group = slot.group(),
                            .env = parts_.runner.environment_of(slot)});
  }
  return kept;
}

void WaitingWorkers::set_patience(std::int64_t ms) {
  patience_ = milliseconds(std::clamp<std::int64_t>(ms, 0, kPatienceMsMax));
}

std::size_t WaitingWorkers::left() {
  const auto stay = std::count_if(parts_.slots.begin(), parts_.slots.end(),
                                  [](const auto& slot) { return slot.second.stayed > 0; });
  return count() + static_cast<std::size_t>(stay);
}

asio::awaitable<void> WaitingWorkers::end() {
  if (patience_ > Duration{0}) {
    parts_.standbys.end();
    parts_.changed.notify();
  }
  const TimePoint began = parts_.clock.now();
  while (left() > 0 && parts_.clock.now() < began + patience_) {
    const auto paused = co_await pause_for(kLookAgainEvery);
    if (paused.has_error()) co_return;
  }
  for (const auto& [rank, slot] : parts_.slots)
    if (slot.stayed > 0) ::kill(static_cast<pid_t>(-slot.stayed), SIGKILL);
}

}  // namespace train
