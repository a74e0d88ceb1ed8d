#include "daemon/supervisor/checkpoints/object_storage.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "daemon/supervisor/checkpoints/checkpoint_fetch.h"
#include "daemon/supervisor/checkpoints/shard_result.h"
#include "lib/base/host.h"
#include "lib/net/blocking.h"
#include "lib/storage/object_checkpoint_store.h"

namespace train {
namespace {

constexpr Duration kProbeTimeout = seconds(15);
// When processors are short, an upload gets a tenth of what a worker gets.
constexpr int kNice = 10;

void give_way_to_workers() {
  const auto thread = static_cast<id_t>(::gettid());  // on Linux, this affects only this thread
  const int now = ::getpriority(PRIO_PROCESS, thread);
  (void)::setpriority(PRIO_PROCESS, thread, std::max(now, kNice));
}

}  // namespace

ObjectStorage::ObjectStorage(PrepareAttempt prepare, Attempt attempt, std::string folder,
                             std::function<void(const std::string&)> say)
    : prepare_(std::move(prepare)),
      attempt_(attempt),
      folder_(std::move(folder)),
      options_{.environment = prepare_.storage_env, .on_retry = std::move(say)} {}

/// Run work at a lower priority than the workers. Threads that the store's client starts meanwhile
/// have the same priority.
template <class T>
Task<T> ObjectStorage::below_workers(std::function<Result<T>()> work) {
  return run_on<T>(pool_, [work = std::move(work)] {
    give_way_to_workers();
    return work();
  });
}

Result<std::shared_ptr<ObjectStore>> ObjectStorage::opened() {
  const std::lock_guard lock(mutex_);
  if (store_ == nullptr) {
    TRY(store_, open_object_store(prepare_.run_dir, options_));
  }
  return store_;
}

/// Check that this node reaches the launcher's store, and may write there.
Result<Unit> ObjectStorage::look() {
  ObjectStoreOptions options = options_;
  options.retry_timeout = kProbeTimeout;
  TRY(auto store, open_object_store(prepare_.run_dir, options));
  const std::string mark = fmt::format("probe-{}", prepare_.generation);
  TRY(const std::string text, store->get(mark, 256));
  if (text != prepare_.storage_marker)
    return Error{Errc::InvalidArgument,
                 fmt::format("'{}' is not the launcher's storage: it has another launcher's marker",
                             prepare_.run_dir),
                 "does that node use the same AWS_ENDPOINT_URL?"};
  const std::string own = fmt::format("{}-{}-{}", mark, host_name(), ::getpid());
  TRY_VOID(store->put(own, text));
  return store->remove(own);
}

Task<Unit> ObjectStorage::probe() {
  auto looking = below_workers<Unit>([this] { return look(); });
  auto looked = co_await std::move(looking);
  if (looked.has_error())
    co_return std::move(looked).error().with_context("the run's storage cannot be used");
  co_return Unit{};
}

std::string ObjectStorage::staging_folder() const { return folder_ + "/staging"; }

Result<CheckpointShard> ObjectStorage::upload(const PendingCheckpoint& pending, Rank rank,
                                              const std::string& staged,
                                              std::chrono::steady_clock::time_point began) {
  const Duration limit = milliseconds(prepare_.upload_timeout_ms);
  const auto on_bytes = [&](std::uint64_t) -> Result<Unit> {
    if (std::chrono::steady_clock::now() - began < limit) return Unit{};
    return Error{Errc::Timeout, fmt::format("not uploaded within {}", format_duration(limit)),
                 "is the store slow? checkpoint_config.upload_timeout is the limit"};
  };
  TRY_VOID(on_bytes(0));  // its turn may have come too late
  TRY(auto store, opened());
  return upload_shard(files_, *store, pending, rank, staged, on_bytes);
}

asio::awaitable<ShardWritten> ObjectStorage::store(Rank rank, CheckpointStaged message) {
  ShardWritten shard = shard_of(rank, message);
  if (!message.error.empty()) co_return shard;
  const PendingCheckpoint pending{Generation{prepare_.generation}, attempt_,
                                  CheckpointSeq{message.checkpoint_seq}};
  const auto began = std::chrono::steady_clock::now();
  auto uploading = below_workers<CheckpointShard>([this, pending, rank, from = message.dir, began] {
    return upload(pending, rank, from, began);
  });
  auto uploaded = co_await std::move(uploading);
  if (uploaded.has_error())
    uploaded = std::move(uploaded).error().with_context(
        fmt::format("uploading the shard of rank {}", rank.value));
  set_outcome(shard, uploaded);
  (void)remove_tree(files_, message.dir);
  co_return shard;
}

/// Return where a checkpoint is fetched to. A launcher chooses the URL, so its last part may lead
/// out of the folder.
Result<std::string> ObjectStorage::folder_in(const char* parent, const std::string& url) const {
  const std::string name = url.substr(url.rfind('/') + 1);
  if (name.empty() || name == "." || name == "..")
    return Error{Errc::InvalidArgument,
                 fmt::format("'{}' is not the location of a checkpoint", escape_name(url))};
  return fmt::format("{}/{}/{}", folder_, parent, name);
}

Task<std::string> ObjectStorage::fetch(std::string from) {
  if (!is_object_url(from)) co_return from;
  restored_ = from;
  CO_TRY(const std::string to, folder_in("restored", from));
  auto fetching =
      below_workers<std::string>([this, from, to] { return fetch_checkpoint(from, to, options_); });
  co_return co_await std::move(fetching);
}

// Keep one of them at most: a long attempt validates more checkpoints than the disk has room for.
Task<std::string> ObjectStorage::fetch_to_validate(std::string from) {
  if (!is_object_url(from) || from == restored_) {
    auto restoring = fetch(from);
    co_return co_await std::move(restoring);
  }
  CO_TRY(const std::string to, folder_in("validated", from));
  const std::string before = std::exchange(validated_, to);
  auto fetching = below_workers<std::string>([this, from, to, before] {
    if (!before.empty() && before != to) (void)remove_tree(files_, before);
    return fetch_checkpoint(from, to, options_);
  });
  co_return co_await std::move(fetching);
}

void ObjectStorage::clean_up() { (void)remove_tree(files_, folder_); }

}  // namespace train
