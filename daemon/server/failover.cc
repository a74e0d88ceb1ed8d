#include "daemon/server/failover.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "daemon/supervisor/processes/spawn.h"
#include "daemon/supervisor/workers/worker_environment.h"
#include "lib/base/exit_code.h"
#include "lib/base/file_descriptor.h"
#include "lib/base/helper_program.h"
#include "lib/net/within.h"

namespace train {
namespace {

constexpr Duration kCheckLimit = seconds(20);  // storage may hang
constexpr std::size_t kSaidBytesMax = 1000;
constexpr std::size_t kOrdersMax = 1000, kOrderBytesMax = 64u << 20;  // of all together

/// Return the command of a train-run that resumes the run.
std::vector<std::string> command_of(const PrepareFailover& order,
                                    const std::vector<std::string>& options = {}) {
  std::vector<std::string> argv{find_helper_program("train-run")};
  argv.insert(argv.end(), order.arguments.begin(), order.arguments.end());
  argv.insert(argv.end(), options.begin(), options.end());
  return argv;
}

std::map<std::string, std::string> environment_of(const PrepareFailover& order,
                                                  const std::optional<UserAccount>& account) {
  std::map<std::string, std::string> env = order.env;
  if (account)
    use_account(env, {{"HOME", account->home},
                      {"LOGNAME", account->name},
                      {"SHELL", account->shell},
                      {"USER", account->name}});
  return env;
}

std::size_t bytes_of(const PrepareFailover& order) {
  std::size_t bytes = order.run_dir.size();
  for (const std::string& word : order.arguments) bytes += word.size();
  for (const auto& [name, value] : order.env) bytes += name.size() + value.size();
  return bytes;
}

/// Return the first line of an error message of train-run, without its prefix.
std::string reason_in(std::string said) {
  said = said.substr(0, said.find('\n'));
  constexpr std::string_view kPrefix = "train-run: error: ";
  return said.starts_with(kPrefix) ? said.substr(kPrefix.size()) : said;
}

/// What a train-run has said, and how it ended.
struct Checked {
  std::string said;
  WaitStatus status;
};

Task<Checked> hear(asio::any_io_executor executor, pid_t pid, int pipe) {
  asio::posix::stream_descriptor source(executor, pipe);
  Checked checked;
  std::array<char, kSaidBytesMax> text{};
  while (checked.said.size() < kSaidBytesMax) {
    const auto [error, size] =
        co_await source.async_read_some(asio::buffer(text), asio::as_tuple(asio::use_awaitable));
    if (error == asio::error::operation_aborted) co_return Error{Errc::Cancelled, "cancelled"};
    if (error) break;
    checked.said.append(text.data(), size);
  }
  source.close();
  auto waiting = wait_for_end(executor, pid);
  CO_TRY(checked.status, co_await std::move(waiting));
  co_return checked;
}

asio::awaitable<void> reap(asio::any_io_executor executor, pid_t pid) {
  auto waiting = wait_for_end(executor, pid);
  (void)co_await std::move(waiting);
}

}  // namespace

Failover::Failover(asio::any_io_executor executor, Scope& scope, const Clock& clock,
                   ControllerWatch& controllers, Log log)
    : executor_(std::move(executor)),
      scope_(scope),
      clock_(clock),
      controllers_(controllers),
      log_(std::move(log)),
      changed_(executor_) {}

void Failover::prepare(const std::string& run_id, std::uint64_t generation, PrepareFailover message,
                       std::optional<UserAccount> account, Answer answer) {
  cancel(run_id);
  if (!has_room_for(message)) return answer({false, "its traind has too many orders like this"});
  const auto number = plan_.prepare(run_id, generation, milliseconds(message.wait_ms));
  orders_[run_id] = {number, std::move(message), std::move(account), std::move(answer)};
  if (!std::exchange(watching_, true)) scope_.spawn("failover", watch());
  if (checking_.insert(run_id).second) scope_.spawn("failover check", check(run_id));
}

bool Failover::has_room_for(const PrepareFailover& message) const {
  std::size_t bytes = bytes_of(message);
  for (const auto& [run_id, order] : orders_) bytes += bytes_of(order.message);
  return orders_.size() < kOrdersMax && bytes <= kOrderBytesMax;
}

/// Check the run's order, and then the one that has replaced it meanwhile.
asio::awaitable<void> Failover::check(std::string run_id) {
  for (;;) {
    const auto found = orders_.find(run_id);
    if (found == orders_.end()) break;
    const Order order = found->second;
    auto checking = check(order);
    const auto checked = co_await std::move(checking);
    if (!checked && checked.error().code == Errc::Cancelled) co_return;
    const auto now = plan_.order_of(run_id);
    if (now && *now != order.number) continue;
    if (now && !checked) cancel(run_id);
    if (now) order.answer({checked.has_value(), checked ? "" : checked.error().message});
    if (now && checked) orders_.at(run_id).answer = nullptr;  // it holds the launcher's link
    break;
  }
  checking_.erase(run_id);
}

// traind itself does not look at the run's folder: its storage may be what has died.
Task<Unit> Failover::check(Order order) {
  SpawnRequest request;
  request.argv = command_of(
      order.message, {kFailoverCheckOption, kFailoverMarkOption, order.message.storage_mark});
  if (request.argv.front().empty())
    co_return Error{Errc::NotFound, "train-run is not installed beside traind"};
  request.env = environment_of(order.message, order.account);
  request.account = order.account;
  request.rules.killed_for_memory_like_others = true;
  CO_TRY(const PipedProcess process, spawn_piped(executor_, request));
  ::close(process.stdout_fd);
  auto hearing = hear(executor_, process.pid, process.stderr_fd);
  auto heard = co_await within(kCheckLimit, std::move(hearing));
  if (heard.has_error()) {
    ::kill(-process.pid, SIGKILL);  // it leads its session, and was not reaped
    scope_.spawn("reap", reap(executor_, process.pid));
    if (heard.error().code != Errc::Timeout) co_return heard.error();
    co_return Error{Errc::Timeout,
                    fmt::format("{} does not answer within {}", order.message.run_dir,
                                format_duration(kCheckLimit))};
  }
  const WaitStatus& status = heard->status;
  if (!status.signaled && status.status == 0) co_return Unit{};
  std::string why = reason_in(std::move(heard->said));
  if (why.empty())
    why = fmt::format("train-run {} {} there",
                      status.signaled ? "was killed by signal" : "exited with", status.status);
  co_return Error{Errc::Unavailable, std::move(why)};
}

void Failover::cancel(const std::string& run_id) {
  plan_.cancel(run_id);
  forget_cancelled();
}

void Failover::attached(const std::string& run_id, std::uint64_t generation) {
  plan_.attached(run_id, generation);
  forget_cancelled();
}

void Failover::left(const std::string& run_id) {
  plan_.left(run_id, clock_.now());
  changed_.notify();
}

asio::awaitable<void> Failover::watch() {
  for (;;) {
    for (const std::string& run_id : plan_.due(clock_.now())) start(run_id);
    const auto woken = co_await changed_.wait_until(plan_.next_deadline());
    if (!woken && woken.error().code == Errc::Cancelled) co_return;
  }
}

void Failover::start(const std::string& run_id) {
  const Order order = orders_.at(run_id);
  log_.info("the launcher is away: another one is started", {{"run", order.message.run_dir}});
  DetachController request;
  request.argv = command_of(
      order.message, {kFailoverOption, run_id, kFailoverMarkOption, order.message.storage_mark});
  request.resume_argv = command_of(order.message);
  request.env = environment_of(order.message, order.account);
  request.run_dir = order.message.run_dir;
  const auto on_end = [this, run_id](const ControllerEnd& end) { ended(run_id, end); };
  if (!controllers_.take_over(std::move(request), order.account, on_end)) ended(run_id, {});
}

void Failover::ended(const std::string& run_id, const ControllerEnd& end) {
  const bool over = end.how == ControllerEnd::How::Exited &&
                    (end.exit_code == exit_code::kOk || end.exit_code == exit_code::kTaken);
  plan_.ended(run_id, over, clock_.now());
  forget_cancelled();
  changed_.notify();
}

void Failover::forget_cancelled() {
  std::erase_if(orders_, [&](const auto& order) { return !plan_.order_of(order.first); });
}

}  // namespace train
