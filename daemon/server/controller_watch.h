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
  ControllerWatch(asio::any_io_executor executor, Scope& scope, const Clock& clock,
                  std::string runtime_dir, Log log, std::function<void()> on_end);

  /// Take over the controllers of a traind that is gone: watch those that live, and start the dead
  /// ones again.
  void resume_all();
  /// Start a controller. Send DetachedController and ControllerEnded, or Refused, to `asker`.
  void detach(DetachController request, std::shared_ptr<Connection> asker);
  bool empty() const { return runs_.empty(); }

 private:
  struct DetachedRun {
    DetachedNote note;
    ControllerFiles files;
    std::shared_ptr<Connection> asker;
    ControllerRestartPolicy policy;
    TimePoint started;
    bool ours = false;  // a child of this process
  };
  Result<Unit> start(DetachedRun& run);
  asio::awaitable<void> hold(std::shared_ptr<DetachedRun> run);
  Task<ControllerEnd> end_of(std::shared_ptr<DetachedRun> run);
  asio::awaitable<void> forget(std::shared_ptr<DetachedRun> run, ControllerEnd end);

  asio::any_io_executor executor_;
  Scope& scope_;
  const Clock& clock_;
  std::string runtime_dir_;
  Log log_;
  std::function<void()> on_end_;
  std::map<std::string, std::shared_ptr<DetachedRun>> runs_;  // by the path of its note
};

}  // namespace train
