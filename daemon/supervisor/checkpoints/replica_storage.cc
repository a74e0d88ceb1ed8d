#include "daemon/supervisor/checkpoints/replica_storage.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <utility>

#include "daemon/supervisor/checkpoints/shard_result.h"
#include "lib/base/error.h"
#include "lib/net/blocking.h"
#include "lib/storage/checkpoint_store.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"
#include "lib/wire/worker_messages.h"

namespace train {
namespace {

/// Move a shard from where it was written to where it stays, and return that place.
Result<std::string> place_shard(FileSystem& fs, const std::string& checkpoints,
                                const PendingCheckpoint& pending, const CheckpointShard& shard) {
  const std::string data = join_path(checkpoints, data_name(pending));
  const std::string location = join_path(data_name(pending), shard_name(shard.rank));
  TRY_VOID(make_folders(fs, data));
  TRY_VOID(remove_tree(fs, join_path(checkpoints, location)));
  TRY_VOID(fs.rename_new(join_path(join_path(checkpoints, pending_name(pending)), shard.dir),
                         join_path(checkpoints, location)));
  TRY_VOID(fs.sync_folder(data));
  (void)fs.remove_folder(join_path(checkpoints, pending_name(pending)));  // if it is empty
  return location;
}

Result<Unit> link_file(const std::string& from, const std::string& to) {
  if (::link(from.c_str(), to.c_str()) == 0) return Unit{};
  return system_error(errno, fmt::format("linking '{}' to '{}'", from, to));
}

/// Make a checkpoint's folder like any other, with hard links to the files in the folders of its
/// shards.
Result<Unit> link_checkpoint(FileSystem& fs, const std::string& checkpoints, Manifest manifest,
                             const std::string& folder) {
  const Manifest there = manifest;
  for (ManifestFile& file : manifest.files) file.at.clear(), file.nodes.clear();
  TRY(const std::string text, format_manifest(std::move(manifest)));
  const auto found = read_small_file(fs, join_path(folder, kManifestName), kManifestBytesMax);
  if (found && *found == text) return Unit{};
  TRY_VOID(remove_tree(fs, folder));
  for (const ManifestFile& file : there.files) {
    const std::string target = join_path(folder, file.path);
    TRY_VOID(make_folders(fs, parent_path(target)));
    TRY_VOID(link_file(join_path(join_path(checkpoints, file.at), file.path), target));
  }
  TRY_VOID(make_folders(fs, folder));
  return write_small_file(fs, join_path(folder, kManifestName), text);
}

/// Return whether this belongs to an earlier attempt, or to a checkpoint of this attempt up to
/// `checkpoint_seq`.
bool is_before(const PendingCheckpoint& made, Attempt attempt, std::uint64_t checkpoint_seq) {
  return made.attempt < attempt ||
         (made.attempt == attempt && made.checkpoint_seq.value <= checkpoint_seq);
}

}  // namespace

asio::awaitable<ShardWritten> ReplicaStorage::store(Rank rank, CheckpointStaged message) {
  const PendingCheckpoint pending{Generation{prepare_.generation}, attempt_,
                                  CheckpointSeq{message.checkpoint_seq}};
  auto storing = LauncherStorage::store(rank, std::move(message));
  ShardWritten shard = co_await std::move(storing);
  if (!shard.error.empty()) co_return shard;
  auto moving = run_on<std::string>(pool_, [this, pending, rank, folder = shard.dir] {
    return place_shard(files_, checkpoints_, pending, {rank, folder, {}});
  });
  const auto location = co_await std::move(moving);
  if (location) {
    shard.dir = *location;
  } else {
    set_error(shard, location.error());
  }
  co_return shard;
}

// ---- messages from the launcher

void ReplicaStorage::keep(KeepShard order) {
  if (!keeping_.insert(order.dir).second) return;  // the order was sent again over a new link
  scope_.spawn("keep a copy", bring_and_answer(std::move(order)));
}

asio::awaitable<void> ReplicaStorage::bring_and_answer(KeepShard order) {
  ShardKept kept{order.rank.value, order.checkpoint_seq, "", ""};
  if (const auto brought = co_await bring(order); brought.has_error()) {
    kept.error = brought.error().describe();
    kept.error_code = std::string(to_string(brought.error().code));
  }
  keeping_.erase(order.dir);
  send_(encode(kept, attempt_));
}

Task<Unit> ReplicaStorage::bring(const KeepShard& order) {
  const auto made = parse_shard_location(order.dir);
  if (!made || made->attempt != attempt_)
    co_return Error{Errc::InvalidArgument, fmt::format("'{}' is not a shard of attempt {}",
                                                       escape_name(order.dir), attempt_.value)};
  for (const CheckpointFile& file : order.files) CO_TRY_VOID(check_file_path(file.path));
  FetchRequest request{
      .folder = order.dir, .into = join_path(checkpoints_, order.dir), .files = order.files};
  auto fetching = fetcher_.fetch(std::move(request));
  CO_TRY_VOID(co_await std::move(fetching));
  auto syncing = run_on<Unit>(pool_, [this, data = data_name(*made)]() -> Result<Unit> {
    TRY_VOID(files_.sync_folder(join_path(checkpoints_, data)));
    return files_.sync_folder(checkpoints_);
  });
  co_return co_await std::move(syncing);
}

/// Remove what is no longer needed. Blocks.
void ReplicaStorage::resolve(const CheckpointOutcome& outcome) {
  const auto entries = files_.list(checkpoints_);
  if (!entries) return;
  const std::set<std::string> keep(outcome.keep.begin(), outcome.keep.end());
  for (const FolderEntry& entry : *entries) {
    const auto made = parse_data_name(entry.name);
    const bool done = made ? is_before(*made, attempt_, outcome.checkpoint_seq)
                           : parse_checkpoint_name(entry.name).has_value();
    if (done && keep.count(entry.name) == 0)
      (void)remove_tree(files_, join_path(checkpoints_, entry.name));
  }
}

// ---- restoring

Task<std::string> ReplicaStorage::bring_checkpoint(const std::string& from, const Found& found) {
  if (found.manifest.nodes().empty()) {
    auto bringing = LauncherStorage::bring_checkpoint(from, found);
    co_return co_await std::move(bringing);
  }
  auto bringing = bring_all(found.manifest);
  CO_TRY_VOID(co_await std::move(bringing));
  const std::string folder = folder_for(from);
  auto linking = run_on<Unit>(
      pool_, [&] { return link_checkpoint(files_, checkpoints_, found.manifest, folder); });
  CO_TRY_VOID(co_await std::move(linking));
  co_return folder;
}

Task<Unit> ReplicaStorage::bring_all(const Manifest& manifest) {
  std::map<std::string, std::vector<CheckpointFile>> by_location;
  for (const ManifestFile& file : manifest.files) by_location[file.at].push_back(file);
  for (auto& [location, files] : by_location) {
    FetchRequest request{
        .folder = location, .into = join_path(checkpoints_, location), .files = std::move(files)};
    auto fetching = fetcher_.fetch(std::move(request));
    CO_TRY_VOID(co_await std::move(fetching));
  }
  co_return Unit{};
}

}  // namespace train
