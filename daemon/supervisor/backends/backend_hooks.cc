#include "daemon/supervisor/backends/backend_hooks.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "daemon/supervisor/backends/hook_text.h"
#include "daemon/supervisor/processes/spawn.h"
#include "lib/base/utf8.h"
#include "lib/net/within.h"

namespace train {
namespace {

constexpr std::size_t kErrorBytesMax = 2048;    // the newest of what a hook wrote to stderr
constexpr Duration kOutputEndMax = seconds(2);  // for pipes that something keeps open

std::string end_text(const WaitStatus& status) {
  return status.signaled ? fmt::format("it was killed by signal {}", status.status)
                         : fmt::format("it exited with {}", status.status);
}

/// Return where the text ends, without the spaces and newlines after it.
std::size_t end_of_text(std::string_view text) { return text.find_last_not_of(" \r\n") + 1; }

Error named(const Error& error, const std::string& name, Rank rank) {
  return {error.code, fmt::format("{} of rank {}: {}", name, rank.value, error.message),
          error.hint};
}

}  // namespace

/// Shared with the flows that read its output.
struct BackendHooks::Running {
  pid_t pid = -1;
  std::optional<Cgroup> cgroup;
  std::string out = {}, err = {};
  bool too_much = false;
  int pipes = 2;  // not read to their end yet

  void kill() const {
    if (cgroup) cgroup->kill();
    ::kill(-pid, SIGKILL);  // its session's process group
  }
};

asio::awaitable<void> BackendHooks::read(std::shared_ptr<Running> hook, int fd, bool of_errors) {
  asio::posix::stream_descriptor pipe(parts_.executor, fd);
  std::vector<char> buffer(16u << 10);
  for (;;) {
    const auto [error, size] =
        co_await pipe.async_read_some(asio::buffer(buffer), asio::as_tuple(asio::use_awaitable));
    if (error) break;
    std::string& text = of_errors ? hook->err : hook->out;
    text.append(buffer.data(), size);
    if (of_errors && text.size() > kErrorBytesMax) text.erase(0, text.size() - kErrorBytesMax);
    if (!of_errors && text.size() > BackendCalls::kDataBytesMax) {
      text.resize(BackendCalls::kDataBytesMax);
      hook->too_much = true;
    }
  }
  --hook->pipes;
  changed_.notify();
}

bool BackendHooks::is_custom() const {
  return parts_.orders.start && parts_.orders.start->backend.name == "custom";
}

const BackendHooks::Environment& BackendHooks::variables(Rank rank) const {
  static const Environment kNone;
  const auto found = variables_.find(rank);
  return found == variables_.end() ? kNone : found->second;
}

Task<Unit> BackendHooks::start() {
  if (!is_custom()) co_return Unit{};
  begun_ = true;
  const auto progress = std::make_shared<Progress>();
  progress->left = parts_.orders.start->workers.size();
  for (const WorkerRanks& worker : parts_.orders.start->workers)
    parts_.scope.spawn("hooks", start_rank(Rank{worker.rank}, progress));
  while (progress->left > 0 && !progress->error) {
    CO_TRY([[maybe_unused]] const bool woken, co_await changed_.wait_until(TimePoint::max()));
  }
  if (progress->error) co_return *progress->error;
  co_return Unit{};
}

asio::awaitable<void> BackendHooks::start_rank(Rank rank, Shared progress) {
  auto preparing = prepare(rank);
  const auto prepared = co_await std::move(preparing);
  if (prepared.has_error() && !progress->error) {
    progress->error = prepared.error();
    failed_rank_ = rank;
  }
  --progress->left;
  changed_.notify();
}

Task<Unit> BackendHooks::prepare(Rank rank) {
  const StartWorkers& order = *parts_.orders.start;
  const BackendProfile& profile = order.backend;
  const Duration limit = milliseconds(profile.hook_timeout_ms);
  const auto per_worker =
      static_cast<std::size_t>(std::max(parts_.orders.prepare->ports_per_worker, 0));
  Environment& variables = variables_[rank];
  std::string own;
  for (std::size_t i = 0; i < per_worker; ++i) {
    const std::size_t at = static_cast<std::size_t>(rank.value) * per_worker + i;
    if (at >= order.peers.size()) break;
    own += (i == 0 ? "" : ",") + order.peers[at];
  }
  variables["TRAINRUN_PORTS"] = own;
  std::string value = own_addresses(order.peers, rank.value, per_worker);
  if (!profile.publish.empty()) {
    CO_TRY(const std::string said, co_await run(rank, "publish", profile.publish, limit));
    auto published = published_value(said);
    if (published.has_error()) co_return named(published.error(), "publish", rank);
    value = std::move(*published);
  }
  CO_TRY(const BackendCalls::Parts values,
         co_await parts_.calls.all_gather(rank, "publish of the backend", value));
  CO_TRY(variables["TRAINRUN_PEERS"], peers_variable(values->parts));
  if (!profile.on_start.empty()) {
    CO_TRY(const std::string said, co_await run(rank, "on_start", profile.on_start, limit));
    const auto printed = printed_variables(said);
    if (printed.has_error()) co_return named(printed.error(), "on_start", rank);
    for (const auto& [name, text] : *printed) variables[name] = text;
  }
  if (!profile.on_training_start.empty()) {  // once on_start has ended everywhere
    CO_TRY([[maybe_unused]] const BackendCalls::Parts all,
           co_await parts_.calls.all_gather(rank, "on_start of the backend", ""));
    CO_TRY([[maybe_unused]] const std::string said,
           co_await run(rank, "on_training_start", profile.on_training_start, limit));
  }
  co_return Unit{};
}

Task<std::string> BackendHooks::run(Rank rank, std::string name, std::vector<std::string> command,
                                    Duration limit) {
  Environment env = parts_.environment(rank);
  env["TRAINRUN_HOOK"] = name;
  env.erase("TRAINRUN_SOCKET");  // it is the worker's
  const auto hook = std::make_shared<Running>();
  hook->cgroup = parts_.confinement.group_without_claim(fmt::format("hook-{}", ++started_));
  const auto spawned =
      spawn_piped(parts_.executor, {.argv = command,
                                    .working_dir = parts_.orders.start->working_dir,
                                    .env = std::move(env),
                                    .inherit_fds = {},
                                    .cgroup = hook->cgroup,
                                    .rules = parts_.confinement.rules()});
  if (spawned.has_error()) co_return named(spawned.error(), name, rank);
  hook->pid = spawned->pid;
  running_.insert(hook);
  parts_.scope.spawn("hook output", read(hook, spawned->stdout_fd, false));
  parts_.scope.spawn("hook errors", read(hook, spawned->stderr_fd, true));
  auto ending = within(limit, wait_for_end(parts_.executor, hook->pid));
  auto status = co_await std::move(ending);
  const bool late = status.has_error() && status.error().code == Errc::Timeout;
  hook->kill();  // it, or what it has left
  if (late) {
    auto killed = wait_for_end(parts_.executor, hook->pid);
    status = co_await std::move(killed);
  }
  running_.erase(hook);
  if (status.has_error()) co_return status.error();
  const SystemClock clock;
  const TimePoint give_up = clock.now() + kOutputEndMax;
  while (hook->pipes > 0 && clock.now() < give_up) {
    const auto woken = co_await changed_.wait_until(give_up);
    if (woken.has_error()) co_return woken.error();
  }
  if (hook->cgroup) hook->cgroup->remove();
  const auto failed = [&](Errc code, const std::string& what, const std::string& hint) {
    return named({code, what, hint}, name, rank);
  };
  if (late)
    co_return failed(Errc::Timeout, "it took longer than " + format_duration(limit),
                     "raise backend_config.hook_timeout");
  if (status->signaled || status->status != 0) {
    const std::string said =
        utf8_text(std::string_view(hook->err).substr(0, end_of_text(hook->err)));
    co_return failed(Errc::Unavailable, end_text(*status) + (said.empty() ? "" : ": " + said), "");
  }
  if (hook->too_much)
    co_return failed(Errc::ResourceExhausted,
                     fmt::format("it printed more than {} bytes", BackendCalls::kDataBytesMax), "");
  co_return std::move(hook->out);
}

asio::awaitable<void> BackendHooks::shut_down() {
  if (!begun_ || parts_.orders.start->backend.on_shutdown.empty()) co_return;
  begun_ = false;
  for (const auto& hook : running_) hook->kill();
  const Duration limit = std::min<Duration>(
      milliseconds(parts_.orders.start->backend.hook_timeout_ms),
      std::max<Duration>(milliseconds(parts_.orders.prepare->stop_grace_ms), seconds(1)));
  const auto progress = std::make_shared<Progress>();
  progress->left = parts_.orders.start->workers.size();
  for (const WorkerRanks& worker : parts_.orders.start->workers)
    parts_.scope.spawn("on_shutdown", shut_down_rank(Rank{worker.rank}, limit, progress));
  while (progress->left > 0) {
    const auto woken = co_await changed_.wait_until(TimePoint::max());
    if (woken.has_error()) co_return;
  }
}

asio::awaitable<void> BackendHooks::shut_down_rank(Rank rank, Duration limit, Shared progress) {
  auto running = run(rank, "on_shutdown", parts_.orders.start->backend.on_shutdown, limit);
  (void)co_await std::move(running);
  --progress->left;
  changed_.notify();
}

}  // namespace train
