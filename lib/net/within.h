// Deadlines. CO_TRY(auto frame, co_await within(5s, connection.receive()));
#pragma once

#include <exception>
#include <optional>
#include <string_view>

#include "lib/base/time.h"
#include "lib/net/task.h"

namespace train {

namespace detail {

/// Run `flow`, and cancel it after `limit`. In either case, wait until it has ended. Return true if
/// the time was up first.
asio::awaitable<bool> run_until(Duration limit, asio::awaitable<void> flow);

Error timeout_error(Duration limit);
Error cancelled_error();

template <class T>
asio::awaitable<void> store_result(std::optional<Result<T>>* out, Task<T> task) {
  out->emplace(co_await std::move(task));
}

}  // namespace detail

/// Wait at most `limit` for the task, then cancel it and return Errc::Timeout once it has ended. If
/// the task still produces a value at the deadline, return that value. If the caller is cancelled,
/// cancel the task and return Errc::Cancelled.
template <class T>
Task<T> within(Duration limit, Task<T> task) {
  std::optional<Result<T>> result;
  const bool time_up =
      co_await detail::run_until(limit, detail::store_result(&result, std::move(task)));
  if (result && (!time_up || result->has_value())) co_return std::move(*result);
  co_return time_up ? detail::timeout_error(limit) : detail::cancelled_error();
}

/// Wait for `duration`. Errc::Cancelled if the caller is cancelled meanwhile.
Task<Unit> pause_for(Duration duration);

}  // namespace train
