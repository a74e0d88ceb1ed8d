// Receives requests to stop a run: signals, and `train-run stop` through the run's folder.
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <functional>
#include <string>
#include <thread>

#include "launcher/core/run_events.h"
#include "lib/net/scope.h"

namespace train {

/// How long the executor may take to answer, from the second signal on. After that, it must be
/// hanging in a call to storage, so the process ends.
inline constexpr Duration kAnswerMax = seconds(5);

class StopRequests {
 public:
  /// `folder`: the run's. `asked` is called on the executor.
  StopRequests(asio::any_io_executor executor, std::string folder,
               std::function<void(const StopAsked&)> asked)
      : executor_(executor), folder_(std::move(folder)), asked_(std::move(asked)) {}

  /// Listen until the process ends. Signals have their own thread: a third one ends the process at
  /// once, whatever the other threads do.
  void begin(Scope& scope);

 private:
  asio::awaitable<void> handle_signals();
  void ask(StopAsked request);
  asio::awaitable<void> end_once_it_hangs(int code);
  asio::awaitable<void> watch_stop_file();

  asio::any_io_executor executor_;
  const std::string folder_;
  const std::function<void(const StopAsked&)> asked_;
  asio::io_context signals_{1};
  asio::signal_set caught_{signals_};
  Scope signal_scope_{signals_.get_executor()};
  std::atomic<int> answered_ = 0;  // the round of end_once_it_hangs() that the executor has seen
  std::thread thread_;             // until the process ends
};

}  // namespace train
