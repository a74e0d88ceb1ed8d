#include "daemon/supervisor/processes/node_setup_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "daemon/supervisor/output/output_spool.h"
#include "daemon/supervisor/workers/worker_environment.h"
#include "lib/base/secrets.h"
#include "lib/base/text_file.h"
#include "lib/base/utf8.h"
#include "lib/net/within.h"

namespace train {
namespace {

constexpr std::uint64_t kOutputBytesMax = 1u << 20;  // the launcher gets a copy
constexpr std::size_t kLineBytesMax = 500;
constexpr Duration kStopMax = seconds(3);  // for the end of what was killed, and of its output
constexpr std::int64_t kTimeoutMsMax = std::int64_t{30} * 86'400'000;

/// Return the time when process 1 started, in ticks since the boot.
std::string start_of_first_process() {
  constexpr int kBetween = 19;  // fields between the name in parentheses and this one
  const std::string stat = read_text("/proc/1/stat");
  std::size_t at = stat.rfind(')');
  for (int field = 0; field <= kBetween && at != std::string::npos; ++field)
    at = stat.find(' ', at + 1);
  if (at == std::string::npos) return "";
  return stat.substr(at + 1, stat.find(' ', at + 1) - at - 1);
}

std::string last_line(const LastLines& said) {
  const auto lines = said.lines();
  const auto last = std::find_if(lines.rbegin(), lines.rend(), [](const std::string& line) {
    return line.find_first_not_of(" \t\r") != std::string::npos;
  });
  return last == lines.rend() ? "" : utf8_text(*last, kLineBytesMax);
}

std::string newest_of(const OutputSpool& spool) {
  std::string output;
  for (std::uint64_t offset = 0; offset < spool.total();) {
    const std::string piece = spool.read(offset, kOutputBytesMax);
    if (piece.empty()) break;
    output += piece;
    offset += piece.size();
  }
  return output;
}

}  // namespace

std::string node_life() {
  std::string boot = read_text("/proc/sys/kernel/random/boot_id");
  boot.resize(std::min(boot.find_last_not_of('\n') + 1, std::size_t{64}));
  return fmt::format("{}/{}", boot, start_of_first_process());
}

std::map<std::string, std::string> NodeSetupRunner::environment(const NodeSetup& order) const {
  StartWorkers start;
  start.run.run_id = parts_.run_id;
  start.run.run_name = order.run_name;
  start.env = order.env;
  start.job_env = order.job_env;
  start.cpus_per_worker = order.cpus_per_worker;
  if (parts_.own_account) use_account(start, account_environment());
  learn_secrets(start.env);
  return setup_environment(parts_.orders.node_environment(start));
}

Task<Unit> NodeSetupRunner::run() {
  const NodeSetup& order = parts_.orders.prepare->setup;
  if (order.command.empty() || done_ || order.done_in == node_life()) co_return Unit{};
  while (running_) {
    CO_TRY([[maybe_unused]] const bool woken, co_await changed_.wait_until(TimePoint::max()));
    if (running_) continue;
    if (done_) co_return Unit{};
    co_return *error_;
  }
  if (stopped_) co_return Error{Errc::Cancelled, "the attempt ends"};
  running_ = true;
  auto running = run_command(parts_.orders.prepare->setup);
  const auto ran = co_await std::move(running);
  running_ = false;
  done_ = !ran.has_error();
  if (!done_) error_ = ran.error();
  changed_.notify();
  co_return ran;
}

void NodeSetupRunner::kill() {
  stopped_ = true;
  commands_.kill_all();
}

asio::awaitable<void> NodeSetupRunner::stop() {
  kill();
  const SystemClock clock;
  const TimePoint give_up = clock.now() + kStopMax;
  while (running_ && clock.now() < give_up) {
    const auto woken = co_await changed_.wait_until(give_up);
    if (woken.has_error()) co_return;
  }
}

Task<Unit> NodeSetupRunner::run_command(NodeSetup order) {
  const SystemClock clock;
  const TimePoint began = clock.now();
  const Duration limit = milliseconds(std::clamp<std::int64_t>(order.timeout_ms, 1, kTimeoutMsMax));
  CO_TRY(OutputSpool spool,
         OutputSpool::create(parts_.orders.spool_dir + "/setup.out", kOutputBytesMax));
  LastLines said;
  CommandRunner::Order command{.name = "setup",
                               .argv = order.command,
                               .working_dir = order.working_dir,
                               .env = environment(order),
                               .limit = limit,
                               .as_worker = true};
  command.output = [&](std::string_view data, bool of_errors) {
    spool.append(data);
    said.append(of_errors ? 1 : 0, data);
  };
  auto running = commands_.run(std::move(command));
  const auto end = co_await std::move(running);
  std::optional<Error> error;
  if (end.has_error()) {
    if (end.error().code == Errc::Cancelled) co_return end.error();
    error = Error{end.error().code, "per_node_setup: " + end.error().message, end.error().hint};
  } else if (end->late || end->status.signaled || end->status.status != 0) {
    const std::string line = last_line(said);
    error = Error{end->late ? Errc::Timeout : Errc::Unavailable,
                  fmt::format("per_node_setup: {}{}{}",
                              end->late ? "it took longer than " + format_duration(limit)
                                        : end_text(end->status),
                              line.empty() ? "" : ": ", line),
                  end->late ? "raise per_node_setup.timeout" : ""};
  }
  spool.finish();
  NodeSetupEnded ended{
      .ok = !error,
      .life = node_life(),
      .error = error && !stopped_ ? error->message : "",
      .output = newest_of(spool),
      .took_ms = std::chrono::duration_cast<milliseconds>(clock.now() - began).count()};
  parts_.uplink.say(ended);
  if (error) co_return *error;
  co_return Unit{};
}

}  // namespace train
