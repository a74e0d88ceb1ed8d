#include "daemon/supervisor/workers/worker_runner.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "daemon/supervisor/core/worker_ending.h"
#include "daemon/supervisor/limits/oom_watch.h"
#include "daemon/supervisor/network_interface.h"
#include "daemon/supervisor/processes/spawn.h"
#include "daemon/supervisor/workers/core_copy.h"
#include "daemon/supervisor/workers/flight_dumps.h"
#include "lib/base/file_descriptor.h"
#include "lib/net/blocking.h"
#include "lib/progress/progress_clock.h"
#include "lib/stacks/core_image.h"

namespace train {
namespace {

constexpr std::uint64_t kSpoolBytesMax = 1u << 30;  // for all workers together
constexpr Duration kUnwindWithin = seconds(6);      // less than kCrashStackMax
constexpr Duration kCoreCopiedWithin = seconds(7);  // likewise

struct FoundCore {
  std::string core = {};                       // as find_core_dump() says
  std::optional<ProcessCapture> process = {};  // with the stack of the crash
};

/// Find the core file, and read the stack of the crash that it holds.
FoundCore find_core(const CoreDump& dump) {
  FoundCore found{.core = find_core_dump(dump)};
  if (!found.core.starts_with('/')) return found;
  const FileDescriptor file(
      ::open(found.core.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  auto image = file.get() < 0 ? std::nullopt : read_core_image(file.get());
  if (image && image->pid != dump.pid) return {};  // another process has overwritten it
  if (image) found.process = std::move(image->process);
  return found;
}

}  // namespace

asio::awaitable<void> WorkerRunner::spawn(WorkerSlot& slot) {
  const Rank rank{slot.ranks.rank};
  const Result<PipedProcess> process = process_for(slot);
  if (!process) {
    parts_.feed(WorkerSpawnFailed{rank, process.error()});
    co_return;
  }
  slot.pid = process->pid;
  output_.start(slot, process->stdout_fd, process->stderr_fd);
  parts_.feed(WorkerSpawned{rank, process->pid});  // before its end, which may have come already
  parts_.scope.spawn("watch", watch(slot));
  if (slot.cgroup)
    parts_.scope.spawn("memory", kill_all_when_out_of_memory(parts_.executor, *slot.cgroup));
}

// Take a process from standby, or start a new one.
Result<PipedProcess> WorkerRunner::process_for(WorkerSlot& slot) const {
  const AttemptOrders& orders = parts_.orders;
  const Rank rank{slot.ranks.rank};
  const std::uint64_t share = kSpoolBytesMax / (2 * orders.start->workers.size());  // of a stream
  TRY_VOID(OutputPump::open_spools(slot, orders.spool_dir,
                                   std::min(orders.prepare->output_bytes_max, share)));
  slot.error_file = fmt::format("{}/rank-{:04}.error.json", orders.spool_dir, rank.value);
  if (slot.standby) {
    slot.cgroup = parts_.confinement.worker_group(slot.group());
    slot.memory = MemoryAccount::begin(slot.cgroup);
    bind_process(slot.standby->process.pid, orders.binding_of(slot.ranks.local_rank));
    return slot.standby->process;
  }
  const std::int32_t role = slot.ranks.role;
  slot.cgroup = parts_.confinement.worker_group(slot.group(), role);
  slot.memory = MemoryAccount::begin(slot.cgroup);
  SpawnRequest request{.argv = orders.command_of(role),
                       .working_dir = orders.start->working_dir,
                       .inherit_fds = {},
                       .cgroup = slot.cgroup,
                       .rules = parts_.confinement.rules()};
  bind(request.rules, orders.binding_of(slot.ranks.local_rank));
  if (rank.value == 0 && orders.master_port)
    request.inherit_fds.push_back(orders.master_port->fd());
  TRY(const FileDescriptor pmi, parts_.backends.socket_for(rank));  // inherited, and closed here
  if (pmi.get() >= 0) request.inherit_fds.push_back(pmi.get());
  request.env = environment_of(slot, pmi.get());
  return spawn_piped(parts_.executor, std::move(request));
}

std::map<std::string, std::string> WorkerRunner::environment_of(const WorkerSlot& slot,
                                                                int pmi_fd) const {
  const AttemptOrders& orders = parts_.orders;
  auto env = worker_environment(
      orders.node_environment(*orders.start, slot.ranks.role),
      {slot.ranks, parts_.checkpoints.staging_folder(Rank{slot.ranks.rank}), slot.error_file,
       interface_of(orders.prepare->bind_address), flight_variables(orders.spool_dir), pmi_fd});
  for (const auto& [name, value] : parts_.backends.variables(Rank{slot.ranks.rank}))
    env[name] = value;
  return env;
}

void WorkerRunner::signal(WorkerSlot& slot, int signal) {
  if (signal == SIGKILL) leftovers_.reap(slot);
  const auto pid = static_cast<pid_t>(slot.pid > 0 ? slot.pid : slot.stayed);
  if (pid <= 0) return;
  ::kill(-pid, signal);  // its session's process group
  ::kill(pid, signal);
}

asio::awaitable<void> WorkerRunner::reap(pid_t pid) const {
  (void)co_await wait_for_end(parts_.executor, pid);
}

asio::awaitable<void> WorkerRunner::watch(WorkerSlot& slot) {
  const Rank rank{slot.ranks.rank};
  auto status = co_await wait_for_end(parts_.executor, static_cast<pid_t>(slot.pid));
  if (!status) co_return;
  if (std::exchange(slot.stayed, 0) > 0) co_return parts_.feed(WorkerReaped{rank, *status});
  slot.reaped_at = parts_.clock.wall();
  slot.reaped_ns = progress_now();
  slot.out_of_memory = slot.memory.end(status->signaled && status->status == SIGKILL);
  slot.pids_limit_hit = parts_.confinement.pids_limit_hit(slot.cgroup);
  look_into_crash(slot, *status);
  parts_.feed(WorkerReaped{rank, *status});
  slot.pid = 0;
  co_await see_off(slot);
}

asio::awaitable<void> WorkerRunner::stay(WorkerSlot& slot) {
  if (slot.pid <= 0 || slot.exit) co_return;
  slot.stayed = std::exchange(slot.pid, 0);
  slot.reaped_at = parts_.clock.wall();
  slot.reaped_ns = progress_now();
  (void)slot.memory.end(/*killed=*/false);
  OutputPump::leave(slot);
  parts_.feed(WorkerStays{Rank{slot.ranks.rank}});
  co_await see_off(slot);
}

/// Follow a worker from its end until nothing more comes from it.
asio::awaitable<void> WorkerRunner::see_off(WorkerSlot& slot) {
  const Rank rank{slot.ranks.rank};
  WorkerEnding ending(parts_.clock.now());
  for (;;) {
    const WorkerEnding::Rest rest{slot.output_ended(), slot.connected, !slot.staging.empty(),
                                  slot.unwinding};
    switch (ending.advance(rest, parts_.clock.now())) {
      case WorkerEnding::Next::TellEnd:
        send_exit(slot);
        break;
      case WorkerEnding::Next::Drained:
        tell_crash(slot);  // what is known of it, if the rest took too long
        co_return parts_.feed(WorkerDrained{rank});
      case WorkerEnding::Next::Wait: {
        const auto deadline = ending.next_deadline(rest, parts_.clock.now());
        const auto woken = co_await parts_.changed.wait_until(deadline.value_or(TimePoint::max()));
        if (woken.has_error() && woken.error().code == Errc::Cancelled) co_return;
        break;
      }
    }
  }
}

void WorkerRunner::look_into_crash(WorkerSlot& slot, const WaitStatus& status) {
  std::optional<ProcessCapture> capture;
  // A shell exits with 128+signal for a command that a signal has killed.
  const int signal = status.signaled ? status.status : status.status - 128;
  if (slot.progress) capture = crash_capture(slot.progress->crash(), signal);
  if (!capture && !status.core_dumped) return;
  const std::string& named = parts_.orders.start->working_dir;
  const std::filesystem::path folder = named.empty() ? "." : named;
  std::error_code no_folder;
  const CoreDump dump{.pid = static_cast<pid_t>(slot.pid),
                      .signal = signal,
                      .folder = std::filesystem::absolute(folder, no_folder).string(),
                      .ended = slot.reaped_at};
  slot.unwinding = true;
  parts_.scope.spawn("crash",
                     explain_crash(slot, std::move(capture),
                                   status.core_dumped ? std::optional(dump) : std::nullopt));
}

asio::awaitable<void> WorkerRunner::explain_crash(WorkerSlot& slot,
                                                  std::optional<ProcessCapture> capture,
                                                  std::optional<CoreDump> dump) {
  const TimePoint copied_by = std::chrono::steady_clock::now() + kCoreCopiedWithin;
  CoreCopyOrder copy{.pid = dump ? dump->pid : 0,
                     .run_dir = parts_.orders.prepare->run_dir,
                     .attempt = parts_.orders.attempt,
                     .rank = Rank{slot.ranks.rank},
                     .deadline = copied_by};
  if (dump) {
    std::function<Result<FoundCore>()> find = [dump = std::move(*dump)] {
      return Result<FoundCore>(find_core(dump));
    };
    auto finding = run_unjoined<FoundCore>(std::move(find));
    auto found = co_await std::move(finding);
    if (found && slot.unwinding) slot.crash.core = copy.core = std::move(found->core);
    if (found && !capture) capture = std::move(found->process);
  }
  if (capture) {
    auto unwinding =
        crashes_.stack_of(std::move(*capture), std::chrono::steady_clock::now() + kUnwindWithin);
    auto stack = co_await std::move(unwinding);
    if (stack && slot.unwinding) {
      stack->core = std::move(slot.crash.core);
      slot.crash = std::move(*stack);
    }
  }
  if (copy.core.starts_with('/') && slot.unwinding) {
    std::function<Result<std::string>()> work = [copy] { return copy_core(copy); };
    auto copying = run_unjoined<std::string>(std::move(work));
    auto path = co_await std::move(copying);
    if (path && slot.unwinding) slot.crash.core = std::move(*path);
  }
  tell_crash(slot);
}

// The end is told once more, with what is known now.
void WorkerRunner::tell_crash(WorkerSlot& slot) const {
  if (!std::exchange(slot.unwinding, false)) return;
  if (slot.exit_sent && !(slot.crash.frames + slot.crash.core).empty())
    parts_.uplink.say(exit_message(slot));
  parts_.changed.notify();
}

void WorkerRunner::send_exit(WorkerSlot& slot) const {
  if (!slot.exit || slot.exit_sent) return;
  slot.exit_sent = true;
  if (!slot.error) slot.error = read_error_file(slot.error_file);
  parts_.uplink.say(exit_message(slot));
}

}  // namespace train
