// Starts the controllers (train-run) of detached runs, watches them, and starts them again when
// they die.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "daemon/core/controller_restart_policy.h"
#include "daemon/server/controller_files.h"
#include "daemon/supervisor/processes/spawn.h"
#include "lib/base/time.h"
#include "lib/base/user_account.h"
#include "lib/net/connection.h"
#include "lib/net/scope.h"
#include "lib/observe/log.h"

namespace train {

class ControllerWatch {
 public:
  /// Returns the account of a user that controllers may run as, or why they may not.
  using AccountOf = std::function<Result<UserAccount>(uid_t uid)>;
  /// `on_end` is called when a controller has ended and no other is started in its place.
  ControllerWatch(asio::any_io_executor executor, Scope& scope, const Clock& clock,
                  std::string runtime_dir, Log log, AccountOf account_of,
                  std::function<void()> on_end);

  /// Take over the controllers of a traind that is gone: watch those that live, and start the dead
  /// ones again.
  void resume_all();
  /// Start a controller. Send DetachedController and ControllerEnded, or Refused, to `asker`.
  void detach(DetachController request, std::shared_ptr<Connection> asker);
  /// Start a controller in place of one that is gone with its node, as `account` (none: ours): a
  /// process that first finds out whether it may take the run over, and is not started again until
  /// it has. `on_end` hears how it ended. Return whether it could be started.
  bool take_over(DetachController request, std::optional<UserAccount> account,
                 std::function<void(const ControllerEnd&)> on_end);
  bool empty() const { return runs_.empty(); }

 private:
  struct DetachedRun {
    DetachedNote note;
    ControllerFiles files;
    std::shared_ptr<Connection> asker;
    ControllerRestartPolicy policy;
    TimePoint started;
    bool ours = false;  // a child of this process
    std::optional<UserAccount> account = {};
    std::function<void(const ControllerEnd&)> on_end = {};  // may be empty
    std::string said = {};  // the newest that one that takes over has printed
  };
  std::string new_tag() const;
  Result<pid_t> spawn(const std::shared_ptr<DetachedRun>& run, SpawnRequest request);
  static Task<bool> has_ended(std::shared_ptr<DetachedRun> run);
  asio::awaitable<void> keep_said(std::shared_ptr<DetachedRun> run, int pipe);
  static std::string said_of(const DetachedRun& run);
  Result<Unit> start(const std::shared_ptr<DetachedRun>& run);
  asio::awaitable<void> hold(std::shared_ptr<DetachedRun> run);
  Task<ControllerEnd> end_of(std::shared_ptr<DetachedRun> run);
  asio::awaitable<void> forget(std::shared_ptr<DetachedRun> run, ControllerEnd end);

  asio::any_io_executor executor_;
  Scope& scope_;
  const Clock& clock_;
  std::string runtime_dir_;
  Log log_;
  AccountOf account_of_;
  std::function<void()> on_end_;
  std::map<std::string, std::shared_ptr<DetachedRun>> runs_;  // by the path of its note
};

}  // namespace train
