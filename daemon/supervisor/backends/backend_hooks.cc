#include "daemon/supervisor/backends/backend_hooks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/supervisor/backends/hook_text.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr std::size_t kErrorBytesMax = 2048;  // the newest of what a hook wrote to stderr
constexpr Duration kKillMax = seconds(2);     // for the end of what was killed
constexpr Duration kHurriedMax = seconds(5);  // for on_shutdown, if the run stops at once

constexpr const char* kOnShutdown = "on_shutdown";

/// Return where the text ends, without the spaces and newlines after it.
std::size_t end_of_text(std::string_view text) { return text.find_last_not_of(" \r\n") + 1; }

Error named(const Error& error, const std::string& name, Rank rank) {
  return {error.code, fmt::format("{} of rank {}: {}", name, rank.value, error.message),
          error.hint};
}

}  // namespace

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
  phase_ = Phase::Starting;
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
  if (phase_ != Phase::Starting && name != kOnShutdown)
    co_return Error{Errc::Cancelled, "the attempt ends"};
  Environment env = parts_.environment(rank);
  env["TRAINRUN_HOOK"] = name;
  env.erase("TRAINRUN_SOCKET");  // it is the worker's
  std::string out, err;
  bool too_much = false;
  CommandRunner::Order order{.name = "hook",
                             .argv = std::move(command),
                             .working_dir = parts_.orders.start->working_dir,
                             .env = std::move(env),
                             .limit = limit,
                             .as_worker = true,
                             .binding = parts_.orders.binding_of(rank)};
  order.output = [&](std::string_view data, bool of_errors) {
    std::string& text = of_errors ? err : out;
    text.append(data);
    if (of_errors && text.size() > kErrorBytesMax) text.erase(0, text.size() - kErrorBytesMax);
    if (!of_errors && text.size() > BackendCalls::kDataBytesMax) {
      text.resize(BackendCalls::kDataBytesMax);
      too_much = true;
    }
  };
  auto running = commands_.run(std::move(order));
  const auto end = co_await std::move(running);
  if (end.has_error()) co_return named(end.error(), name, rank);
  const auto failed = [&](Errc code, const std::string& what, const std::string& hint) {
    return named({code, what, hint}, name, rank);
  };
  if (end->late)
    co_return failed(Errc::Timeout, "it took longer than " + format_duration(limit),
                     "raise backend_config.hook_timeout");
  if (end->status.signaled || end->status.status != 0) {
    const std::string said = utf8_text(std::string_view(err).substr(0, end_of_text(err)));
    co_return failed(Errc::Unavailable, end_text(end->status) + (said.empty() ? "" : ": " + said),
                     "");
  }
  if (too_much)
    co_return failed(Errc::ResourceExhausted,
                     fmt::format("it printed more than {} bytes", BackendCalls::kDataBytesMax), "");
  co_return std::move(out);
}

asio::awaitable<void> BackendHooks::shut_down() {
  while (phase_ == Phase::ShuttingDown) {  // for another caller
    const auto woken = co_await changed_.wait_until(TimePoint::max());
    if (woken.has_error()) co_return;
  }
  if (phase_ != Phase::Starting) co_return;
  phase_ = Phase::ShuttingDown;
  commands_.kill_all();
  auto ending = commands_.none_runs(kKillMax);
  (void)co_await std::move(ending);  // one that hangs in a file system outlives its SIGKILL
  const auto progress = std::make_shared<Progress>();
  if (!parts_.orders.start->backend.on_shutdown.empty()) {
    progress->left = parts_.orders.start->workers.size();
    for (const WorkerRanks& worker : parts_.orders.start->workers)
      parts_.scope.spawn("on_shutdown",
                         shut_down_rank(Rank{worker.rank}, shutdown_limit(), progress));
  }
  while (progress->left > 0) {
    const auto woken = co_await changed_.wait_until(TimePoint::max());
    if (woken.has_error()) co_return;
  }
  phase_ = Phase::Over;
  changed_.notify();
}

void BackendHooks::hurry() {
  hurried_ = true;
  if (phase_ == Phase::ShuttingDown) commands_.kill_all();
}

Duration BackendHooks::shutdown_limit() const {
  if (hurried_) return kHurriedMax;
  return std::min<Duration>(
      milliseconds(parts_.orders.start->backend.hook_timeout_ms),
      std::max<Duration>(milliseconds(parts_.orders.prepare->stop_grace_ms), seconds(1)));
}

asio::awaitable<void> BackendHooks::shut_down_rank(Rank rank, Duration limit, Shared progress) {
  auto running = run(rank, kOnShutdown, parts_.orders.start->backend.on_shutdown, limit);
  (void)co_await std::move(running);
  --progress->left;
  changed_.notify();
}

}  // namespace train
