// Calls that block on storage, which may hang: each on a thread of its own, that is left behind
// when nobody waits for it any more.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "lib/base/time.h"
#include "lib/net/notifier.h"
#include "lib/net/task.h"

namespace train {

/// `work` uses nothing that may go before it ends. The executor must outlive it.
template <class T>
Task<T> on_own_thread(asio::any_io_executor executor, std::function<Result<T>()> work) {
  struct Answer {
    explicit Answer(asio::any_io_executor on) : come(on) {}
    Notifier come;
    std::optional<Result<T>> result = std::nullopt;
  };
  const auto answer = std::make_shared<Answer>(executor);
  int failed = 0;
  try {
    std::thread([executor, answer, work] {
      auto result = work();
      asio::post(executor, [answer, result = std::move(result)]() mutable {
        answer->result = std::move(result);
        answer->come.notify();
      });
    }).detach();
  } catch (const std::system_error& e) {
    failed = e.code().value();
  }
  if (failed != 0) co_return system_error(failed, "starting a thread");
  while (!answer->result) {
    const auto woken = co_await answer->come.wait_until(TimePoint::max());
    if (woken.has_error()) co_return woken.error();
  }
  co_return std::move(*answer->result);
}

}  // namespace train
