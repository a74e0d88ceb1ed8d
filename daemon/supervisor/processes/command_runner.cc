#include "daemon/supervisor/processes/command_runner.h"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "daemon/supervisor/processes/spawn.h"
#include "lib/net/within.h"

namespace train {
namespace {

constexpr Duration kOutputEndMax = seconds(2);  // for pipes that something keeps open
constexpr std::size_t kReadBytes = 16u << 10;

}  // namespace

std::string end_text(const WaitStatus& status) {
  if (!status.signaled) return fmt::format("it exited with {}", status.status);
  const char* name = ::sigabbrev_np(status.status);
  return name != nullptr ? fmt::format("it was killed by SIG{}", name)
                         : fmt::format("it was killed by signal {}", status.status);
}

/// Shared with the flows that read its output.
struct CommandRunner::Running {
  pid_t pid = -1;
  std::optional<Cgroup> cgroup = {};
  std::function<void(std::string_view, bool)> output = {};
  int pipes = 2;  // not read to their end yet

  void kill() const {
    if (cgroup) cgroup->kill();
    ::kill(-pid, SIGKILL);  // its session's process group
  }
};

asio::awaitable<void> CommandRunner::read(std::shared_ptr<Running> command, int fd,
                                          bool of_errors) {
  asio::posix::stream_descriptor pipe(executor_, fd);
  std::vector<char> buffer(kReadBytes);
  for (;;) {
    const auto [error, size] =
        co_await pipe.async_read_some(asio::buffer(buffer), asio::as_tuple(asio::use_awaitable));
    if (error) break;
    if (command->output) command->output({buffer.data(), size}, of_errors);
  }
  --command->pipes;
  changed_.notify();
}

Task<CommandRunner::End> CommandRunner::run(Order order) {
  const auto command = std::make_shared<Running>();
  const std::string group = fmt::format("{}-{}", order.name, ++started_);
  command->cgroup = order.as_worker ? confinement_.worker_group(group, order.role)
                                    : confinement_.group_without_claim(group);
  command->output = std::move(order.output);
  SpawnRequest request{.argv = std::move(order.argv),
                       .working_dir = std::move(order.working_dir),
                       .env = std::move(order.env),
                       .inherit_fds = std::move(order.inherit_fds),
                       .cgroup = command->cgroup,
                       .rules = confinement_.rules()};
  bind(request.rules, order.binding);
  const auto spawned = spawn_piped(executor_, std::move(request));
  if (spawned.has_error()) {
    if (command->cgroup) command->cgroup->remove();
    co_return spawned.error();
  }
  command->pid = spawned->pid;
  running_.insert(command);
  scope_.spawn("output of " + group, read(command, spawned->stdout_fd, false));
  scope_.spawn("errors of " + group, read(command, spawned->stderr_fd, true));
  auto ending = within(order.limit, wait_for_end(executor_, command->pid));
  auto status = co_await std::move(ending);
  const bool late = status.has_error() && status.error().code == Errc::Timeout;
  command->kill();  // it, or what it has left
  if (late) {
    auto killed = wait_for_end(executor_, command->pid);
    status = co_await std::move(killed);
  }
  running_.erase(command);
  changed_.notify();
  if (status.has_error()) {
    command->output = {};
    co_return status.error();
  }
  const SystemClock clock;
  const TimePoint give_up = clock.now() + kOutputEndMax;
  while (command->pipes > 0 && clock.now() < give_up) {
    const auto woken = co_await changed_.wait_until(give_up);
    if (woken.has_error()) break;
  }
  command->output = {};  // what it refers to ends with us
  if (command->cgroup) command->cgroup->remove();
  co_return End{*status, late};
}

Task<Unit> CommandRunner::none_runs(Duration limit) {
  const TimePoint give_up = SystemClock().now() + limit;
  while (!running_.empty() && SystemClock().now() < give_up) {
    CO_TRY([[maybe_unused]] const bool woken, co_await changed_.wait_until(give_up));
  }
  co_return Unit{};
}

void CommandRunner::kill_all() const {
  for (const auto& command : running_) command->kill();
}

}  // namespace train
