#include "lib/net/within.h"

#include <fmt/format.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

namespace train {
namespace detail {

asio::awaitable<bool> run_until(Duration limit, asio::awaitable<void> flow) {
  const auto executor = co_await asio::this_coro::executor;
  asio::steady_timer timer(executor);
  timer.expires_after(std::chrono::duration_cast<asio::steady_timer::duration>(limit));
  auto group = asio::experimental::make_parallel_group(
      asio::co_spawn(executor, std::move(flow), asio::deferred), timer.async_wait(asio::deferred));
  // The first to end cancels the other, and the group ends when both have ended, so the flow never
  // outlives this call.
  auto [order, exception, timer_error] =
      co_await group.async_wait(asio::experimental::wait_for_one(), asio::use_awaitable);
  if (exception) {
    try {
      std::rethrow_exception(exception);
    } catch (const boost::system::system_error& e) {
      // Asio ends a cancelled coroutine with operation_aborted.
      if (e.code() != asio::error::operation_aborted) throw;
    }
  }
  co_return !timer_error;
}

Error timeout_error(Duration limit) {
  return Error{Errc::Timeout, fmt::format("no answer within {}", format_duration(limit))};
}

Error cancelled_error() { return Error{Errc::Cancelled, "cancelled"}; }

}  // namespace detail

Task<Unit> pause_for(Duration duration) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  timer.expires_after(std::chrono::duration_cast<asio::steady_timer::duration>(duration));
  auto [error] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  if (error) co_return detail::cancelled_error();
  co_return Unit{};
}

}  // namespace train
