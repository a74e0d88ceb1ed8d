// Takes over the controllers of runs whose launchers are gone with their nodes, for launchers that
// have asked for that (PrepareFailover). FailoverPlan decides when to try it; the train-run that is
// started then decides whether the launcher is really gone.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "daemon/core/failover_plan.h"
#include "daemon/server/controller_watch.h"
#include "lib/base/time.h"
#include "lib/base/user_account.h"
#include "lib/net/notifier.h"
#include "lib/net/scope.h"
#include "lib/observe/log.h"
#include "lib/wire/daemon_messages.h"

namespace train {

class Failover {
 public:
  using Answer = std::function<void(const FailoverAnswer&)>;

  /// Orders do not outlive this process: launchers give them again when they attach again.
  Failover(asio::any_io_executor executor, Scope& scope, const Clock& clock,
           ControllerWatch& controllers, Log log);

  /// A launcher's order, which replaces the run's earlier one. It holds until a train-run that is
  /// started as `account` (none: ours) has found that it cannot be obeyed here. Then, or once that
  /// has checked it, answer.
  void prepare(const std::string& run_id, std::uint64_t generation, PrepareFailover message,
               std::optional<UserAccount> account, Answer answer);
  /// The run is over, or the launcher has chosen another node.
  void cancel(const std::string& run_id);
  void attached(const std::string& run_id, std::uint64_t generation);
  void left(const std::string& run_id);

 private:
  struct Order {
    FailoverPlan::Order number = 0;
    PrepareFailover message;
    std::optional<UserAccount> account;
    Answer answer;
  };
  bool has_room_for(const PrepareFailover& message) const;
  asio::awaitable<void> watch();
  asio::awaitable<void> check(std::string run_id);
  Task<Unit> check(Order order);
  void start(const std::string& run_id);
  void ended(const std::string& run_id, const ControllerEnd& end);
  void forget_cancelled();

  asio::any_io_executor executor_;
  Scope& scope_;
  const Clock& clock_;
  ControllerWatch& controllers_;
  Log log_;
  FailoverPlan plan_;
  std::map<std::string, Order> orders_;  // by run_id; of the runs in plan_
  std::set<std::string> checking_;       // runs of which an order is being checked
  bool watching_ = false;
  Notifier changed_;
};

}  // namespace train
