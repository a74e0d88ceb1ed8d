// This file lets a flow await blocking calls without blocking the flow's thread. The calls run on a
// pool or, if storage may hang, each on its own thread.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "lib/base/thread.h"
#include "lib/base/time.h"
#include "lib/net/notifier.h"
#include "lib/net/task.h"

namespace train {

namespace detail {

/// The result of a call on its way to the flow. It is shared, because the flow may have ended
/// meanwhile.
template <class T>
struct BlockingAnswer {
  explicit BlockingAnswer(asio::any_io_executor on) : executor(on), come(on) {}

  /// Send the result, from the thread of the call. It gives its share of the answer away: the
  /// executor may be gone before the thread is.
  static void send(std::shared_ptr<BlockingAnswer> answer, Result<T> result) {
    const asio::any_io_executor executor = answer->executor;
    asio::post(executor, [answer = std::move(answer), result = std::move(result)]() mutable {
      answer->result = std::move(result);
      answer->come.notify();
    });
  }

  const asio::any_io_executor executor;
  Notifier come;
  std::optional<Result<T>> result = std::nullopt;
};

}  // namespace detail

/// Run `work` on the pool. Everything that it refers to must outlive it. It cannot be cancelled: a
/// cancelled flow waits until it ends.
template <class T>
Task<T> run_on(asio::thread_pool& pool, std::function<Result<T>()> work) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const auto answer = std::make_shared<detail::BlockingAnswer<T>>(executor);
  asio::post(pool, [shared = answer, work = std::move(work)]() mutable {
    detail::BlockingAnswer<T>::send(std::move(shared), work());
  });
  while (!answer->result) (void)co_await answer->come.wait_until(TimePoint::max());
  co_return std::move(*answer->result);
}

/// Run `work` on its own thread, which continues if the flow is cancelled. `work` must not use
/// anything that may be destroyed before it ends; the flow's executor must outlive it.
template <class T>
Task<T> run_unjoined(std::function<Result<T>()> work) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const auto answer = std::make_shared<detail::BlockingAnswer<T>>(executor);
  const auto started =
      start_unjoined_thread("trainrun-io", [shared = answer, work = std::move(work)]() mutable {
        detail::BlockingAnswer<T>::send(std::move(shared), work());
      });
  if (started.has_error()) co_return started.error();
  while (!answer->result) {
    const auto woken = co_await answer->come.wait_until(TimePoint::max());
    if (woken.has_error()) co_return woken.error();
  }
  co_return std::move(*answer->result);
}

}  // namespace train
