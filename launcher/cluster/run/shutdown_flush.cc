#include "launcher/cluster/run/shutdown_flush.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "lib/base/thread.h"

namespace train {

void ShutdownFlush::begin() {
  if (std::exchange(begun_, true)) return;
  began_ = clock_.now();
  until_ = began_ + (escalated_ ? kEscalatedFlushMax : limit_);
}

void ShutdownFlush::escalate() {
  escalated_ = said_ = true;
  if (begun_) until_ = std::min(until_, clock_.now() + kEscalatedFlushMax);
  changed_.notify();
}

asio::awaitable<bool> ShutdownFlush::wait_for(Task<Unit> task) {
  const auto done = std::make_shared<bool>(false);
  scope_.spawn("last writes", mark(std::move(task), done));
  co_return co_await wait_until_done(done);
}

asio::awaitable<void> ShutdownFlush::mark(Task<Unit> task, std::shared_ptr<bool> done) {
  const auto ended = co_await std::move(task);
  *done = ended.has_value();
  changed_.notify();
}

asio::awaitable<bool> ShutdownFlush::wait_for_thread(std::function<void()> work) {
  const auto done = std::make_shared<bool>(false);
  const auto started = start_unjoined_thread("trainrun-flush", [this, work, done] {
    work();
    asio::post(executor_, [this, done] {
      *done = true;
      changed_.notify();
    });
  });
  if (!started) {
    work();
    *done = true;
  }
  co_return co_await wait_until_done(done);
}

asio::awaitable<bool> ShutdownFlush::wait_until_done(std::shared_ptr<bool> done) {
  while (!*done && clock_.now() < until_) {
    const TimePoint quiet_until = began_ + kFlushQuiet;
    if (!said_ && clock_.now() >= quiet_until) {
      said_ = true;
      messages_.phase(fmt::format("waiting at most {} for the last writes; Ctrl-C ends that",
                                  format_duration(until_ - clock_.now())));
    }
    const auto woken = co_await changed_.wait_until(said_ ? until_ : std::min(until_, quiet_until));
    if (woken.has_error()) break;
  }
  in_time_ &= *done;
  co_return *done;
}

}  // namespace train
