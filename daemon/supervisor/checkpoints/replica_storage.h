// Keeps checkpoints on the nodes' own disks while the run goes on (`replicas`): a shard here, and
// copies of it on other nodes, in this run's folder of traind's --data-dir. traind hands them out,
// even once this supervisor has gone. The launcher passes them on to whoever asks.
#pragma once

#include <set>

#include "daemon/supervisor/checkpoints/launcher_storage.h"
#include "lib/net/scope.h"
#include "lib/storage/manifest.h"

namespace train {

class ReplicaStorage final : public LauncherStorage {
 public:
  /// As for LauncherStorage. Flows of `scope` bring the copies.
  ReplicaStorage(asio::any_io_executor executor, Scope& scope, const Clock& clock,
                 PrepareAttempt prepare, Attempt attempt, const std::string& data_dir, Send send)
      : LauncherStorage(executor, clock, std::move(prepare), attempt, data_dir, std::move(send)),
        scope_(scope) {}

  boost::asio::awaitable<ShardWritten> store(Rank rank, CheckpointStaged message) override;
  void keep(KeepShard order) override;
  bool relayed() const override { return false; }

 private:
  void resolve(const CheckpointOutcome& outcome) override;
  /// Bring the checkpoint as LauncherStorage does, but keep what this node fetches of files that
  /// are only on nodes.
  Task<std::string> bring_checkpoint(const std::string& from, const Found& found) override;
  boost::asio::awaitable<void> bring_and_answer(KeepShard order);
  Task<Unit> bring(const KeepShard& order);
  Task<Unit> bring_all(const Manifest& manifest);

  Scope& scope_;
  std::set<std::string> keeping_;  // their places
};

}  // namespace train
