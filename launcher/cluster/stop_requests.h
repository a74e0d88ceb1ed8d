// Who asks a run to stop: signals, and `train-run stop` through the run's folder.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <functional>
#include <string>

#include "launcher/core/run_events.h"
#include "lib/net/scope.h"

namespace train {

class StopRequests {
 public:
  /// `folder`: the run's. `asked` is called on the executor.
  StopRequests(asio::any_io_executor executor, std::string folder,
               std::function<void(const StopAsked&)> asked)
      : executor_(executor), folder_(std::move(folder)), asked_(std::move(asked)) {}

  /// Listen from now on. A third signal ends the process at once.
  void begin(Scope& scope);

 private:
  asio::awaitable<void> handle_signals();
  asio::awaitable<void> watch_stop_file();

  asio::any_io_executor executor_;
  const std::string folder_;
  const std::function<void(const StopAsked&)> asked_;
};

}  // namespace train
