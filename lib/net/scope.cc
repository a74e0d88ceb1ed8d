#include "lib/net/scope.h"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>
#include <map>

#include "lib/base/check.h"

namespace train {
namespace {

constexpr auto kCancelAgainAfter = std::chrono::milliseconds(5);

// Run a coroutine so that its waits return Errc::Cancelled. By default, Asio makes every co_await
// of a cancelled coroutine throw, even the one in join().
asio::awaitable<void> without_throwing(asio::awaitable<void> coroutine) {
  co_await asio::this_coro::throw_if_cancelled(false);
  co_await std::move(coroutine);
}

// Return an empty text if a coroutine ended properly: by itself, or by the exception with which
// Asio ends a cancelled one.
std::string describe_bug(const std::exception_ptr& exception) {
  if (!exception) return {};
  try {
    std::rethrow_exception(exception);
  } catch (const boost::system::system_error& e) {
    return e.code() == asio::error::operation_aborted ? std::string() : std::string(e.what());
  } catch (const std::exception& e) {
    return e.what();
  }
}

}  // namespace

struct Scope::State : std::enable_shared_from_this<State> {
  struct Running {
    std::string name;
    asio::cancellation_signal signal;
  };

  explicit State(const asio::any_io_executor& ex)
      : executor(ex), ended(ex, asio::steady_timer::time_point::max()), again(ex) {}

  void end(std::uint64_t id, const std::exception_ptr& exception) {
    const auto it = running.find(id);
    const std::string bug = describe_bug(exception);
    TRAIN_CHECK(bug.empty(), fmt::format("coroutine '{}' threw: {}", it->second.name, bug));
    running.erase(it);
    if (!running.empty()) return;
    ended.cancel();  // wakes join()
    again.cancel();
  }

  // Cancel all running coroutines. A coroutine that is not waiting misses the signal, so repeat it
  // until the coroutine has ended.
  void cancel_running() {
    std::vector<std::uint64_t> ids;
    for (const auto& [id, entry] : running) ids.push_back(id);
    for (const std::uint64_t id : ids) {
      // Cancelling one coroutine may end another.
      if (const auto it = running.find(id); it != running.end())
        it->second.signal.emit(asio::cancellation_type::terminal);
    }
    if (running.empty()) return;
    again.expires_after(kCancelAgainAfter);
    again.async_wait([weak = weak_from_this()](const boost::system::error_code& error) {
      if (const auto state = weak.lock(); state && !error) state->cancel_running();
    });
  }

  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& [id, entry] : running) out.push_back(entry.name);
    return out;
  }

  asio::any_io_executor executor;
  asio::steady_timer ended, again;
  // A map, so that the signals never move.
  std::map<std::uint64_t, Running> running;
  std::uint64_t next_id = 0;
  bool cancelled = false;
};

Scope::Scope(asio::any_io_executor executor) : state_(std::make_shared<State>(executor)) {}

Scope::~Scope() {
  TRAIN_CHECK(state_->running.empty(), fmt::format("a scope ends before its coroutines: {}",
                                                   fmt::join(state_->names(), ", ")));
}

void Scope::spawn(std::string name, asio::awaitable<void> coroutine) {
  if (state_->cancelled) return;
  const std::uint64_t id = state_->next_id++;
  State::Running& entry = state_->running[id];
  entry.name = std::move(name);
  // The pointer is weak because a coroutine that is destroyed unfinished, with its io_context, must
  // not keep the state alive.
  asio::co_spawn(
      state_->executor, without_throwing(std::move(coroutine)),
      asio::bind_cancellation_slot(
          entry.signal.slot(), [weak = std::weak_ptr(state_), id](std::exception_ptr exception) {
            if (const auto state = weak.lock()) state->end(id, exception);
          }));
}

void Scope::cancel() {
  const auto state = state_;
  state->cancelled = true;
  state->cancel_running();
}

asio::awaitable<void> Scope::join() {
  const auto state = state_;
  const bool throws = co_await asio::this_coro::throw_if_cancelled();
  co_await asio::this_coro::throw_if_cancelled(false);
  while (!state->running.empty())
    co_await state->ended.async_wait(asio::as_tuple(asio::use_awaitable));
  co_await asio::this_coro::throw_if_cancelled(throws);
}

std::size_t Scope::size() const { return state_->running.size(); }
std::vector<std::string> Scope::names() const { return state_->names(); }

}  // namespace train
