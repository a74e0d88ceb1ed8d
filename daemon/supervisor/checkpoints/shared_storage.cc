#include "daemon/supervisor/checkpoints/shared_storage.h"

#include <fmt/format.h>

#include <future>
#include <utility>

#include "daemon/supervisor/checkpoints/checkpoint_fetch.h"
#include "daemon/supervisor/checkpoints/shard_result.h"
#include "lib/base/thread.h"
#include "lib/net/blocking.h"

namespace train {

SharedStorage::SharedStorage(asio::any_io_executor executor, const Clock& clock,
                             PrepareAttempt prepare, Attempt attempt, std::string folder)
    : prepare_(std::move(prepare)),
      attempt_(attempt),
      fetched_(std::move(folder)),
      checkpoints_(prepare_.run_dir + "/checkpoints"),
      probe_(executor, clock),
      writers_(executor, clock, files_, milliseconds(prepare_.upload_timeout_ms)) {}

Task<Unit> SharedStorage::probe() { return probe_.run(prepare_); }

std::string SharedStorage::staging_folder() const {
  return fmt::format("{}/.staging-{}", checkpoints_, attempt_.value);
}

asio::awaitable<ShardWritten> SharedStorage::store(Rank rank, CheckpointStaged message) {
  ShardWritten shard = shard_of(rank, message);
  if (!message.error.empty()) co_return shard;
  const PendingCheckpoint pending{Generation{prepare_.generation}, attempt_,
                                  CheckpointSeq{message.checkpoint_seq}};
  auto writing = writers_.write({checkpoints_, pending, rank, message.dir});
  const auto written = co_await std::move(writing);
  set_outcome(shard, written);
  co_return shard;
}

Task<std::string> SharedStorage::fetch(std::string from) {
  if (!is_object_url(from)) co_return from;  // it is read where it was committed
  auto fetching = run_on<std::string>(pool_, [this, from] {
    return fetch_checkpoint(from, fetched_, {.environment = prepare_.storage_env});
  });
  co_return co_await std::move(fetching);
}

void SharedStorage::clean_up() {
  const auto done = std::make_shared<std::promise<void>>();
  const auto removed = done->get_future();
  const auto started =
      start_unjoined_thread("trainrun-io", [files = files_, folder = staging_folder(), done] {
        (void)remove_tree(*files, folder);
        done->set_value();
      });
  if (started) (void)removed.wait_for(kCleanUpMax);
  (void)remove_tree(*files_, fetched_);
}

}  // namespace train
