// Blocking work on a pool, awaited by a flow of another thread.
#pragma once

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <functional>
#include <optional>

#include "lib/net/task.h"

namespace train {

namespace detail {
template <class T>
asio::awaitable<std::optional<Result<T>>> call(std::function<Result<T>()> work) {
  co_return work();
}
}  // namespace detail

/// What `work` refers to must outlive it: it is not cancelled.
template <class T>
Task<T> run_on(asio::thread_pool& pool, std::function<Result<T>()> work) {
  auto flow = detail::call<T>(std::move(work));
  auto result = co_await asio::co_spawn(pool, std::move(flow), asio::use_awaitable);
  co_return std::move(*result);
}

}  // namespace train
