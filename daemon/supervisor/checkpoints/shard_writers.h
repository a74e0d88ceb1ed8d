// Writes shards of checkpoints on threads, each within a time limit: storage may be slow, or never
// answer. A thread that hangs is left behind and replaced, up to a limit. A thread whose shard was
// given up removes what it still stores.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <string>

#include "lib/base/time.h"
#include "lib/net/notifier.h"
#include "lib/net/task.h"
#include "lib/storage/checkpoint_writer.h"

namespace train {

inline constexpr int kShardWritersMax = 2;  // while one shard waits for the disk, another is read
inline constexpr int kHangingWritersMax = 8;

struct ShardOrder {
  std::string checkpoints;  // the run's folder for checkpoints
  PendingCheckpoint pending;
  Rank rank;
  std::string staged;  // ours: removed once the shard is stored or given up
};

class ShardWriters {
 public:
  /// `limit`: the time for one shard, including the wait for its turn.
  ShardWriters(asio::any_io_executor executor, const Clock& clock,
               std::shared_ptr<FileSystem> files, Duration limit);

  /// Call write_shard() on a thread. Errors: Timeout, if the shard was given up.
  Task<CheckpointShard> write(ShardOrder order);
  /// Give up all shards that are not stored yet, and all later ones.
  void give_up();
  /// Return how many threads have not ended although their shard was given up.
  int hanging() const { return hanging_; }

 private:
  struct Job;
  struct UnwrittenShards;
  Result<Unit> start(const std::shared_ptr<Job>& job);
  void remove_staged(const ShardOrder& order);
  Error given_up(const ShardOrder& order) const;

  asio::any_io_executor executor_;
  const Clock& clock_;
  const std::shared_ptr<FileSystem> files_;  // shared with threads that are left behind
  const Duration limit_;
  const std::shared_ptr<UnwrittenShards> unwritten_;  // shared with the thread that removes them
  Notifier changed_;
  int writing_ = 0;  // threads whose shards may still be stored in time
  int hanging_ = 0;  // threads whose shards were given up
  bool given_up_ = false;
};

}  // namespace train
