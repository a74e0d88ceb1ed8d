// Storage that this node has mounted in the same way as the launcher. The node writes the shards of
// checkpoints directly to their place, and restores checkpoints from where they were committed.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <memory>

#include "daemon/supervisor/checkpoints/checkpoint_transport.h"
#include "daemon/supervisor/checkpoints/shard_writers.h"
#include "daemon/supervisor/checkpoints/storage_probe.h"
#include "lib/storage/posix_file_system.h"

namespace train {

inline constexpr Duration kCleanUpMax = seconds(5);  // for storage that may hang

class SharedStorage final : public CheckpointTransport {
 public:
  /// `folder`, on this node's disk, is for a checkpoint that is fetched from elsewhere
  /// (resume_from_checkpoint: s3://…).
  SharedStorage(asio::any_io_executor executor, const Clock& clock, PrepareAttempt prepare,
                Attempt attempt, std::string folder);

  Task<Unit> probe() override;
  /// Return a folder in the storage itself, so that shards are moved into place, not copied.
  std::string staging_folder() const override;
  boost::asio::awaitable<ShardWritten> store(Rank rank, CheckpointStaged message) override;
  Task<std::string> fetch(std::string from) override;
  void give_up() override { writers_.give_up(); }
  void clean_up() override;

 private:
  const PrepareAttempt prepare_;
  const Attempt attempt_;
  const std::string fetched_, checkpoints_;
  const std::shared_ptr<PosixFileSystem> files_ = std::make_shared<PosixFileSystem>();
  StorageProbe probe_;
  ShardWriters writers_;
  boost::asio::thread_pool pool_{1};  // for fetching
};

}  // namespace train
