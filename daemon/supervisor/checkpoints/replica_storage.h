// Keeps checkpoints on the nodes' own disks during the run (`replicas`): a shard here, and copies
// of it on other nodes, in this run's folder of traind's --data-dir. traind serves them, even after
// this supervisor has ended. The launcher passes them on to the nodes that ask.
#pragma once

#include <set>

#include "daemon/supervisor/checkpoints/launcher_storage.h"
#include "lib/net/scope.h"
#include "lib/storage/manifest.h"

namespace train {

class ReplicaStorage final : public LauncherStorage {
 public:
  /// See LauncherStorage. Flows of `scope` fetch the copies.
  ReplicaStorage(asio::any_io_executor executor, Scope& scope, const Clock& clock,
                 PrepareAttempt prepare, Attempt attempt, const std::string& data_dir, Send send)
      : LauncherStorage(executor, clock, std::move(prepare), attempt, data_dir, std::move(send)),
        scope_(scope) {}

  boost::asio::awaitable<ShardWritten> store(Rank rank, CheckpointStaged message) override;
  void keep(KeepShard order) override;
  bool relayed() const override { return false; }

 private:
  void resolve(const CheckpointOutcome& outcome) override;
  /// Fetch the checkpoint as LauncherStorage does. Files that are only on nodes' disks are fetched
  /// to stay here as copies.
  Task<std::string> bring_checkpoint(const std::string& from, const Found& found) override;
  boost::asio::awaitable<void> bring_and_answer(KeepShard order);
  Task<Unit> bring(const KeepShard& order);
  Task<Unit> bring_all(const Manifest& manifest);

  Scope& scope_;
  std::set<std::string> keeping_;  // the shards being copied, by their folders
};

}  // namespace train
