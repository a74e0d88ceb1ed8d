// Storage in an object store. The node stages the shards of checkpoints on its disk and uploads
// them from there. It fetches a checkpoint to its disk before workers restore from it.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>

#include "daemon/supervisor/checkpoints/checkpoint_transport.h"
#include "lib/storage/checkpoint_writer.h"
#include "lib/storage/object_store.h"
#include "lib/storage/posix_file_system.h"
#include "lib/wire/daemon_messages.h"

namespace train {

/// Its destructor blocks until the call to the store that is under way has returned.
class ObjectStorage final : public CheckpointTransport {
 public:
  /// `prepare.run_dir` is the run's URL. The node keeps its files in `folder`, which does not exist
  /// yet. `say` is called with a line, on any thread, when the store is slow or cannot be reached.
  ObjectStorage(PrepareAttempt prepare, Attempt attempt, std::string folder,
                std::function<void(const std::string&)> say);
  Task<Unit> probe() override;
  std::string staging_folder() const override;
  boost::asio::awaitable<ShardWritten> store(Rank rank, CheckpointStaged message) override;
  Task<std::string> fetch(std::string from) override;
  Task<std::string> fetch_to_validate(std::string from) override;
  void clean_up() override;

 private:
  Result<Unit> look();
  /// `began`: when the shard was handed over. The wait for its turn counts against its limit.
  Result<CheckpointShard> upload(const PendingCheckpoint& pending, Rank rank,
                                 const std::string& staged,
                                 std::chrono::steady_clock::time_point began);
  Result<std::shared_ptr<ObjectStore>> opened();
  Result<std::string> folder_in(const char* parent, const std::string& url) const;
  template <class T>
  Task<T> below_workers(std::function<Result<T>()> work);

  const PrepareAttempt prepare_;
  const Attempt attempt_;
  const std::string folder_;
  const ObjectStoreOptions options_;
  PosixFileSystem files_;
  std::string restored_;   // the URL of the checkpoint that workers restore from
  std::string validated_;  // the folder of the checkpoint that was fetched last for a validation
  std::mutex mutex_;
  std::shared_ptr<ObjectStore> store_;
  boost::asio::thread_pool pool_{2};
};

}  // namespace train
