// Checkpoints that stay on the nodes' own disks while the run goes on (`replicas`): a shard here,
// and copies of it on other nodes, in this run's folder of traind's --data-dir. traind hands them
// out, also once this supervisor has gone; the launcher passes them on to whoever asks.
#pragma once

#include <set>

#include "daemon/supervisor/checkpoints/launcher_storage.h"
#include "lib/net/scope.h"
#include "lib/storage/manifest.h"

namespace train {

class ReplicaStorage final : public LauncherStorage {
 public:
  /// As LauncherStorage; copies are brought by flows of `scope`.
  ReplicaStorage(asio::any_io_executor executor, Scope& scope, const Clock& clock,
                 PrepareAttempt prepare, Attempt attempt, const std::string& data_dir, Send send)
      : LauncherStorage(executor, clock, std::move(prepare), attempt, data_dir, std::move(send)),
        scope_(scope) {}

  boost::asio::awaitable<ShardWritten> store(Rank rank, CheckpointStaged message) override;
  void keep(KeepShard order) override;
  bool relayed() const override { return false; }

 private:
  void settle(const CheckpointOutcome& outcome) override;
  /// Of files that are nowhere but on nodes, this node keeps what it fetches.
  Task<std::string> bring_checkpoint(const std::string& from, const Found& found) override;
  boost::asio::awaitable<void> bring_and_answer(KeepShard order);
  Task<Unit> bring(const KeepShard& order);
  Task<Unit> bring_all(const Manifest& manifest);

  Scope& scope_;
  std::set<std::string> keeping_;  // their places
};

}  // namespace train
