#include "daemon/supervisor/checkpoints/launcher_storage.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <optional>
#include <utility>

#include "daemon/supervisor/checkpoints/shard_result.h"
#include "daemon/supervisor/run_data.h"
#include "lib/net/blocking.h"
#include "lib/storage/checkpoint_store.h"
#include "lib/storage/storage_marker.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"
#include "lib/wire/daemon_messages.h"
#include "lib/wire/worker_messages.h"

namespace train {
namespace {

constexpr std::string_view kStaging = ".staging-";
constexpr std::string_view kElsewhere = ".from-";  // checkpoints that are not the run's own

/// Return whether the entry is left over from an earlier attempt: nobody asks for it any more.
bool is_left_over(const std::string& name, Attempt attempt) {
  if (const auto pending = parse_pending_name(name)) return pending->attempt < attempt;
  return name.starts_with(kStaging) && name != fmt::format("{}{}", kStaging, attempt.value);
}

/// Return the checkpoint of a shard, from the path of the shard's folder in a request of the
/// launcher.
std::optional<PendingCheckpoint> pending_of(std::string_view folder) {
  const auto slash = folder.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string_view shard = folder.substr(slash + 1);
  if (!shard.starts_with(".rank-") || shard.find('/') != std::string_view::npos)
    return std::nullopt;
  return parse_pending_name(folder.substr(0, slash));
}

/// Move all files below `from` to the same places below `to`. Existing files stay.
Result<Unit> move_files(FileSystem& fs, const std::string& from, const std::string& to) {
  TRY(const auto entries, fs.list(from));
  TRY_VOID(make_folders(fs, to));
  for (const FolderEntry& entry : entries) {
    const std::string source = join_path(from, entry.name), target = join_path(to, entry.name);
    if (entry.kind == FileKind::Folder) {
      TRY_VOID(move_files(fs, source, target));
    } else if (auto moved = fs.rename_new(source, target);
               moved.has_error() && moved.error().code != Errc::AlreadyExists) {
      return moved;
    }
  }
  return Unit{};
}

/// Move the shards that were made here into the folder of their checkpoint, which is committed.
Result<Unit> keep_shards(FileSystem& fs, const std::string& pending, const std::string& folder) {
  TRY(const auto shards, fs.list(pending));
  for (const FolderEntry& shard : shards)
    TRY_VOID(move_files(fs, join_path(pending, shard.name), folder));
  return Unit{};
}

/// Remove older checkpoints, except for those in `keep`: every rank has handed over a newer shard,
/// so nobody reads them any more.
void remove_others(FileSystem& fs, const std::string& checkpoints, const std::string& newest,
                   const std::vector<std::string>& keep) {
  const auto entries = fs.list(checkpoints);
  if (!entries) return;
  for (const FolderEntry& entry : *entries) {
    const bool checkpoint = parse_checkpoint_name(entry.name) || entry.name.starts_with(kElsewhere);
    const std::string path = join_path(checkpoints, entry.name);
    const bool kept =
        path == newest || std::find(keep.begin(), keep.end(), entry.name) != keep.end();
    if (checkpoint && !kept) (void)remove_tree(fs, path);
  }
}

}  // namespace

LauncherStorage::LauncherStorage(asio::any_io_executor executor, const Clock& clock,
                                 PrepareAttempt prepare, Attempt attempt,
                                 const std::string& data_dir, Send send)
    : prepare_(std::move(prepare)),
      attempt_(attempt),
      checkpoints_(join_path(data_dir, "checkpoints")),
      send_(std::move(send)),
      fetcher_(executor, clock, pool_,
               [this](const ReadFile& read) { send_(encode(read, attempt_)); }),
      server_(executor) {}

Task<Unit> LauncherStorage::probe() {
  return run_on<Unit>(pool_, [this] { return prepare_folder(); });
}

Result<Unit> LauncherStorage::prepare_folder() {
  TRY_VOID(make_run_data(files_, parent_path(checkpoints_)));
  TRY_VOID(make_folders(files_, checkpoints_));
  TRY(const auto entries, files_.list(checkpoints_));
  for (const FolderEntry& entry : entries) {
    if (is_left_over(entry.name, attempt_))
      (void)remove_tree(files_, join_path(checkpoints_, entry.name));
  }
  TRY(const std::uint64_t free, files_.free_bytes(checkpoints_));
  if (free >= kFreeBytesMin) return Unit{};
  return Error{Errc::NoSpace,
               fmt::format("only {} bytes are free in '{}', where checkpoints wait for the "
                           "launcher; at least {} are required",
                           free, checkpoints_, kFreeBytesMin),
               "free some space there, or give traind another --data-dir"};
}

std::string LauncherStorage::staging_folder() const {
  return fmt::format("{}/{}{}", checkpoints_, kStaging, attempt_.value);
}

asio::awaitable<ShardWritten> LauncherStorage::store(Rank rank, CheckpointStaged message) {
  ShardWritten shard = shard_of(rank, message);
  shard.on_node = true;
  if (!message.error.empty()) co_return shard;
  const PendingCheckpoint pending{Generation{prepare_.generation}, attempt_,
                                  CheckpointSeq{message.checkpoint_seq}};
  auto writing = run_on<CheckpointShard>(pool_, [this, pending, rank, from = message.dir] {
    auto stored = write_shard(files_, checkpoints_, pending, rank, from);
    (void)remove_tree(files_, from);
    return stored;
  });
  const auto written = co_await std::move(writing);
  set_outcome(shard, written);
  co_return shard;
}

// ---- messages from the launcher

void LauncherStorage::resolved(const CheckpointOutcome& outcome) {
  asio::post(pool_, [this, outcome] { resolve(outcome); });
}

void LauncherStorage::serve(const ReadFile& request) {
  const auto reply = [this](const FileBytes& answer) { send_(encode(answer, attempt_)); };
  const auto pending = pending_of(request.folder);
  if (!pending || pending->attempt != attempt_ || !check_file_path(request.path))
    return reply(FileServer::refusal(
        request, Error{Errc::InvalidArgument,
                       fmt::format("'{}' in '{}' is not a file of a shard of attempt {}",
                                   escape_name(request.path), escape_name(request.folder),
                                   attempt_.value)}));
  server_.serve(checkpoints_, join_path(request.folder, request.path), request, reply);
}

void LauncherStorage::resolve(const CheckpointOutcome& outcome) {
  const PendingCheckpoint which{Generation{prepare_.generation}, attempt_,
                                CheckpointSeq{outcome.checkpoint_seq}};
  const std::string pending = join_path(checkpoints_, pending_name(which));
  if (!outcome.path.empty()) {
    const std::string newest = folder_for(outcome.path);
    if (keep_shards(files_, pending, newest))
      remove_others(files_, checkpoints_, newest, outcome.keep);
  }
  (void)remove_tree(files_, pending);
}

// ---- restoring

std::string LauncherStorage::folder_for(const std::string& checkpoint) const {
  const std::string name = checkpoint.substr(checkpoint.rfind('/') + 1);
  const bool ours = parse_checkpoint_name(name) &&
                    parent_path(checkpoint) == join_path(prepare_.run_dir, "checkpoints");
  return join_path(checkpoints_,
                   ours ? name : fmt::format("{}{:016x}", kElsewhere, digest64_of(checkpoint)));
}

/// Make the folder. If it holds another checkpoint of that name, remove that first.
Result<Unit> LauncherStorage::free_space_for(const std::string& folder,
                                             const std::string& manifest) {
  const auto there = read_small_file(files_, join_path(folder, kManifestName), kManifestBytesMax);
  if (there && *there != manifest) TRY_VOID(remove_tree(files_, folder));
  return make_folders(files_, folder);
}

Task<LauncherStorage::Found> LauncherStorage::find(const std::string& from) {
  auto reading = fetcher_.fetch_small(from, std::string(kManifestName), kManifestBytesMax);
  CO_TRY(std::string text, co_await std::move(reading));
  CO_TRY(Manifest manifest, parse_manifest(text));
  co_return Found{std::move(text), std::move(manifest)};
}

Task<std::string> LauncherStorage::bring_checkpoint(const std::string& from, const Found& found) {
  const std::string folder = folder_for(from);
  auto freeing = run_on<Unit>(pool_, [&] { return free_space_for(folder, found.text); });
  CO_TRY_VOID(co_await std::move(freeing));
  FetchRequest request{.folder = from,
                       .into = folder,
                       .files = {found.manifest.files.begin(), found.manifest.files.end()}};
  auto fetching = fetcher_.fetch(std::move(request));
  CO_TRY_VOID(co_await std::move(fetching));
  auto writing = run_on<Unit>(pool_, [&] {
    return write_small_file(files_, join_path(folder, kManifestName), found.text);
  });
  CO_TRY_VOID(co_await std::move(writing));
  co_return folder;
}

Task<std::string> LauncherStorage::fetch(std::string from) {
  const std::string doing = fmt::format("bringing '{}' to this node", from);
  auto finding = find(from);
  auto found = co_await std::move(finding);
  if (found.has_error()) co_return std::move(found).error().with_context(doing);
  auto bringing = bring_checkpoint(from, *found);
  auto folder = co_await std::move(bringing);
  if (folder.has_error()) co_return std::move(folder).error().with_context(doing);
  co_return folder;
}

void LauncherStorage::clean_up() {
  (void)remove_tree(files_, staging_folder());
  const auto entries = files_.list(checkpoints_);
  if (!entries) return;
  for (const FolderEntry& entry : *entries) {
    const auto pending = parse_pending_name(entry.name);
    if (pending && pending->attempt == attempt_)
      (void)remove_tree(files_, join_path(checkpoints_, entry.name));
  }
}

}  // namespace train
