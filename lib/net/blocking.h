// Calls that block, awaited by a flow that does not: on a pool, or, where storage may hang, each on
// a thread of its own.
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

/// What the call returned, on its way to the flow: shared, as the flow may have left meanwhile.
template <class T>
struct BlockingAnswer {
  explicit BlockingAnswer(asio::any_io_executor on) : executor(on), come(on) {}

  /// From the thread of the call.
  static void send(const std::shared_ptr<BlockingAnswer>& answer, Result<T> result) {
    asio::post(answer->executor, [answer, result = std::move(result)]() mutable {
      answer->result = std::move(result);
      answer->come.notify();
    });
  }

  const asio::any_io_executor executor;
  Notifier come;
  std::optional<Result<T>> result = std::nullopt;
};

}  // namespace detail

/// Run `work` on the pool. What it refers to must outlive it. It cannot be cancelled: a flow that
/// is waits for its end.
template <class T>
Task<T> run_on(asio::thread_pool& pool, std::function<Result<T>()> work) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const auto answer = std::make_shared<detail::BlockingAnswer<T>>(executor);
  asio::post(pool,
             [answer, work = std::move(work)] { detail::BlockingAnswer<T>::send(answer, work()); });
  while (!answer->result) (void)co_await answer->come.wait_until(TimePoint::max());
  co_return std::move(*answer->result);
}

/// Run `work` on a thread of its own, which is left behind when the flow is cancelled. It uses
/// nothing that may go before it ends; the flow's executor must outlive it.
template <class T>
Task<T> run_unjoined(std::function<Result<T>()> work) {
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const auto answer = std::make_shared<detail::BlockingAnswer<T>>(executor);
  const auto started = start_unjoined_thread("trainrun-io", [answer, work = std::move(work)] {
    detail::BlockingAnswer<T>::send(answer, work());
  });
  if (started.has_error()) co_return started.error();
  while (!answer->result) {
    const auto woken = co_await answer->come.wait_until(TimePoint::max());
    if (woken.has_error()) co_return woken.error();
  }
  co_return std::move(*answer->result);
}

}  // namespace train
