// Starts the controllers (train-run) of detached runs, watches them, and starts them again when
// they die.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "daemon/core/controller_restart_policy.h"
#include "daemon/server/controller_files.h"
#include "lib/base/time.h"
#include "lib/net/connection.h"
#include "lib/net/scope.h"
#include "lib/observe/log.h"

namespace train {

class ControllerWatch {
 public:
  /// `on_end` is called when a controller has ended and no other is started in its place.
  ControllerWatch(asio::any_io_executor executor, Scope& scope, std::string runtime_dir, Log log,
                  std::function<void()> on_end);

  /// Take over the controllers of a traind that is gone: watch the living, and start the dead
  /// again.
  void resume_all();
  /// Start a controller. The asker hears DetachedController and ControllerEnded, or Refused.
  void keep(DetachController request, std::shared_ptr<Connection> asker);
  bool empty() const { return kept_.empty(); }

 private:
  struct Kept {
    KeptNote note;
    ControllerFiles files;
    std::shared_ptr<Connection> asker;
    ControllerRestartPolicy policy;
    TimePoint started;
    bool ours = false;  // a child of this process
  };
  Result<Unit> start(Kept& kept);
  asio::awaitable<void> hold(std::shared_ptr<Kept> kept);
  Task<ControllerEnd> end_of(std::shared_ptr<Kept> kept);
  asio::awaitable<void> forget(std::shared_ptr<Kept> kept, ControllerEnd end);

  asio::any_io_executor executor_;
  Scope& scope_;
  std::string runtime_dir_;
  Log log_;
  std::function<void()> on_end_;
  SystemClock clock_;
  std::map<std::string, std::shared_ptr<Kept>> kept_;  // by the path of its note
};

}  // namespace train
