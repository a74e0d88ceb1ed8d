#include "daemon/supervisor/workers/stack_taker.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "daemon/supervisor/processes/process_sampler.h"
#include "daemon/supervisor/workers/flight_dumps.h"
#include "lib/net/blocking.h"
#include "lib/stacks/stacks_codec.h"
#include "lib/stacks/take_stacks.h"
#include "lib/storage/run_folder.h"

namespace train {
namespace {

constexpr std::size_t kMessageBytesMax = 2u << 20;  // half of a frame

using Taken = std::vector<ProcessStacks>;

/// Return the bytes of a process's stacks, of as many threads as fit into a message.
std::string bounded(ProcessStacks stacks) {
  std::string bytes = encode_stacks(stacks);
  while (bytes.size() > kMessageBytesMax && stacks.threads.size() > 1) {
    stacks.notes.push_back(
        fmt::format("{} threads are left out", stacks.threads.size() - stacks.threads.size() / 2));
    stacks.threads.resize(stacks.threads.size() / 2);
    bytes = encode_stacks(stacks);
  }
  return bytes;
}

}  // namespace

asio::awaitable<void> StackTaker::take(TakeStacks order) {
  if (busy_) {
    uplink_.send(StacksTaken{order.request, {}, true, "another capture is running there"});
    co_return;
  }
  busy_ = true;
  std::vector<std::pair<std::int32_t, pid_t>> programs;  // by rank
  for (const auto& [rank, slot] : slots_) {
    const auto& wanted = order.ranks;
    if (!wanted.empty() && std::count(wanted.begin(), wanted.end(), rank.value) == 0) continue;
    if (slot.pid <= 0) continue;
    const auto pid =
        static_cast<pid_t>(sample_processes(static_cast<pid_t>(slot.pid), slot.program).pid);
    if (pid > 0) programs.emplace_back(rank.value, pid);
  }
  const std::string run_dir = orders_.prepare ? orders_.prepare->run_dir : std::string();
  std::function<Result<Taken>()> work = [programs, run_dir, spool = orders_.spool_dir,
                                         attempt = orders_.attempt]() -> Result<Taken> {
    std::vector<std::int32_t> ranks;
    std::vector<pid_t> pids;
    for (const auto& [rank, pid] : programs) ranks.push_back(rank), pids.push_back(pid);
    const auto asked = ask_flight_recorders(spool, ranks);
    const auto asked_at = std::chrono::steady_clock::now();
    auto taken = take_stacks(pids, asked_at + kStacksWithin);
    if (!asked.empty())
      keep_flight_dumps(spool, asked, RunFolder(run_dir).attempt(attempt) + "/flight_records",
                        asked_at + kFlightDumpsWithin);
    return taken;
  };
  auto taking = run_unjoined<Taken>(std::move(work));
  auto taken = co_await std::move(taking);
  busy_ = false;
  StacksTaken message{.request = order.request};
  if (taken.has_error()) message.error = taken.error().describe();
  std::size_t bytes = 0;
  for (std::size_t i = 0; taken && i < taken->size(); ++i) {
    WorkerStacks worker{programs[i].first, bounded(std::move((*taken)[i]))};
    if (bytes > 0 && bytes + worker.stacks.size() > kMessageBytesMax) {
      uplink_.send(std::exchange(message, StacksTaken{.request = order.request}));
      bytes = 0;
    }
    bytes += worker.stacks.size();
    message.workers.push_back(std::move(worker));
  }
  message.last = true;
  uplink_.send(message);
}

}  // namespace train
