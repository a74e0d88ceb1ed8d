#include "daemon/supervisor/shared_storage.h"

#include <fmt/format.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <optional>
#include <utility>

#include "daemon/supervisor/checkpoint_fetch.h"
#include "daemon/supervisor/part_result.h"
#include "lib/storage/checkpoint_writer.h"

namespace train {

SharedStorage::SharedStorage(asio::any_io_executor executor, const Clock& clock,
                             PrepareAttempt prepare, Attempt attempt, std::string folder)
    : prepare_(std::move(prepare)),
      attempt_(attempt),
      fetched_(std::move(folder)),
      checkpoints_(prepare_.run_dir + "/checkpoints"),
      probe_(executor, clock) {}

Task<Unit> SharedStorage::probe() { return probe_.run(prepare_); }

std::string SharedStorage::staging_folder() const {
  return fmt::format("{}/.staging-{}", checkpoints_, attempt_.value);
}

asio::awaitable<PartWritten> SharedStorage::store(Rank rank, CheckpointStaged message) {
  PartWritten part = part_of(rank, message);
  if (!message.error.empty()) co_return part;
  const PendingCheckpoint pending{Epoch{prepare_.epoch}, attempt_, Ordinal{message.index}};
  const auto written = co_await asio::co_spawn(
      pool_,
      [](PosixFileSystem& files, std::string to, PendingCheckpoint which, Rank who,
         std::string from) -> asio::awaitable<std::optional<Result<CheckpointPart>>> {
        co_return write_part(files, to, which, who, from);
      }(files_, checkpoints_, pending, rank, message.dir),
      asio::use_awaitable);
  set_outcome(part, *written);
  if (*written) (void)remove_tree(files_, message.dir);
  co_return part;
}

Task<std::string> SharedStorage::fetch(std::string from) {
  if (!is_object_url(from)) co_return from;  // it is where it was committed
  // Named: g++ 12 destroys what a co_await's temporaries hold twice.
  const ObjectStoreOptions options{.environment = prepare_.storage_env};
  co_return co_await fetch_checkpoint(pool_, from, fetched_, options);
}

void SharedStorage::clean_up() {
  (void)remove_tree(files_, staging_folder());
  (void)remove_tree(files_, fetched_);
}

}  // namespace train
