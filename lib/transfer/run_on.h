// Blocking work on a pool, awaited by a flow of another thread.
#pragma once

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "lib/base/time.h"
#include "lib/net/notifier.h"
#include "lib/net/task.h"

namespace train {

/// What `work` refers to must outlive it. It is not cancelled: a flow that is waits for its end.
template <class T>
Task<T> run_on(asio::thread_pool& pool, std::function<Result<T>()> work) {
  struct Answer {
    explicit Answer(asio::any_io_executor on) : come(on) {}
    Notifier come;
    std::optional<Result<T>> result = std::nullopt;
  };
  const asio::any_io_executor executor = co_await asio::this_coro::executor;
  const auto answer = std::make_shared<Answer>(executor);
  asio::post(pool, [executor, answer, work = std::move(work)] {
    asio::post(executor, [answer, result = work()]() mutable {
      answer->result = std::move(result);
      answer->come.notify();
    });
  });
  while (!answer->result) (void)co_await answer->come.wait_until(TimePoint::max());
  co_return std::move(*answer->result);
}

}  // namespace train
