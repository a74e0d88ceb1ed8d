#include "lib/storage/object_checkpoint_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "lib/storage/staged_files.h"

namespace train {
namespace {

constexpr std::string_view kDataPrefix = "data-";
constexpr std::size_t kUploadBytes = 1 << 20;

std::string data_key(const PendingCheckpoint& pending) {
  return join_path(kObjectCheckpoints, data_name(pending));
}

std::string part_name(Rank rank) { return fmt::format("rank-{:04}", rank.value); }

Result<PartFile> upload_file(FileSystem& local, ObjectStore& store, const std::string& from,
                             const std::string& key, const std::string& path, std::string& buffer,
                             const OnBytes& on_bytes) {
  TRY(auto source, local.open_to_read(from));
  TRY(auto target, store.create(key));
  Hasher hasher;
  PartFile file{.path = path, .bytes = 0, .digest = {}};
  for (;;) {
    TRY(const std::size_t got, source->read(buffer.data(), buffer.size()));
    if (got == 0) break;
    const std::string_view bytes(buffer.data(), got);
    hasher.update(bytes);
    file.bytes += got;
    TRY_VOID(target->write(bytes));
    if (on_bytes) TRY_VOID(on_bytes(got));
  }
  TRY_VOID(target->close());
  file.digest = hasher.digest();
  return file;
}

}  // namespace

std::string data_name(const PendingCheckpoint& pending) {
  return fmt::format("{}{}-{}.{}", kDataPrefix, pending.epoch.value, pending.attempt.value,
                     pending.ordinal.value);
}

std::optional<PendingCheckpoint> parse_data_name(std::string_view name) {
  if (!name.starts_with(kDataPrefix)) return std::nullopt;
  return parse_pending_name(fmt::format(".tmp-{}", name.substr(kDataPrefix.size())));
}

Result<CheckpointPart> upload_part(FileSystem& local, ObjectStore& store,
                                   const PendingCheckpoint& pending, Rank rank,
                                   const std::string& staged, const OnBytes& on_bytes) {
  TRY(const auto files, staged_files(local, staged));
  CheckpointPart part{rank, part_name(rank), {}};
  const std::string folder = join_path(data_key(pending), part.folder);
  std::string buffer(kUploadBytes, '\0');
  for (const StagedFile& file : files) {
    TRY(auto uploaded, upload_file(local, store, join_path(staged, file.path),
                                   join_path(folder, file.path), file.path, buffer, on_bytes));
    part.files.push_back(std::move(uploaded));
  }
  return part;
}

Result<std::set<PendingCheckpoint>> ObjectCheckpointStore::uploaded() const {
  std::set<PendingCheckpoint> found;
  TRY(const auto objects, store_.list(std::string(kObjectCheckpoints)));
  for (const StoredObject& object : objects) {
    const std::size_t begin = kObjectCheckpoints.size() + 1;
    const auto name = object.key.substr(begin, object.key.find('/', begin) - begin);
    if (const auto pending = parse_data_name(name)) found.insert(*pending);
  }
  return found;
}

Result<std::vector<PendingCheckpoint>> ObjectCheckpointStore::pending() const {
  TRY(const auto all, uploaded());
  std::set<PendingCheckpoint> committed;
  TRY(const auto listed, list());
  for (const ListedCheckpoint& one : listed) {
    if (!one.manifest.has_error())
      committed.insert({one.manifest->epoch, one.manifest->attempt, one.manifest->ordinal});
  }
  std::vector<PendingCheckpoint> pending;
  std::set_difference(all.begin(), all.end(), committed.begin(), committed.end(),
                      std::back_inserter(pending));
  return pending;
}

Result<std::vector<std::string>> ObjectCheckpointStore::open(
    Epoch current, const std::vector<PendingCheckpoint>& keep) {
  TRY(const auto all, uploaded());
  TRY(const auto left, pending());
  committed_ = all;
  std::vector<std::string> discarded;
  for (const PendingCheckpoint& one : left) {
    committed_.erase(one);
    const bool kept = std::find(keep.begin(), keep.end(), one) != keep.end();
    if (kept || !(one.epoch < current)) continue;
    TRY_VOID(discard(one));
    discarded.push_back(data_name(one));
  }
  return discarded;
}

/// That the store holds what was uploaded, and all of it.
Result<Unit> ObjectCheckpointStore::check_uploaded(const PendingCheckpoint& pending,
                                                   const Manifest& manifest) {
  TRY(const auto objects, store_.list(data_key(pending)));
  std::map<std::string, std::uint64_t> bytes;
  for (const StoredObject& object : objects) bytes[object.key] = object.bytes;
  for (const ManifestFile& file : manifest.files) {
    const std::string key = join_path(join_path(kObjectCheckpoints, file.at), file.path);
    const auto found = bytes.find(key);
    if (found != bytes.end() && found->second == file.bytes) continue;
    return Error{Errc::Corrupt,
                 fmt::format("'{}' of rank {} was uploaded with {} bytes, and {}", file.path,
                             file.ranks.front().value, file.bytes,
                             found == bytes.end() ? "is not there"
                                                  : fmt::format("has {} there", found->second))};
  }
  return Unit{};
}

Result<Manifest> ObjectCheckpointStore::commit(const CommitRequest& request,
                                               const std::function<Result<Unit>()>& may_commit) {
  const std::string doing = fmt::format("committing {}", checkpoint_name(request.number));
  auto made = manifest_of(request);
  if (made.has_error()) return std::move(made).error().with_context(doing);
  Manifest manifest = std::move(*made);
  for (ManifestFile& file : manifest.files)
    file.at = join_path(data_name(request.pending), part_name(file.ranks.front()));
  const auto steps = [&]() -> Result<Unit> {
    TRY_VOID(check_uploaded(request.pending, manifest));
    TRY(const std::string text, format_manifest(manifest));
    TRY_VOID(may_commit());
    return store_.put_new(
        join_path(join_path(kObjectCheckpoints, checkpoint_name(request.number)), kManifestName),
        text);
  };
  auto done = steps();
  if (done.has_error()) return std::move(done).error().with_context(doing);
  committed_.insert(request.pending);
  return manifest;
}

Result<Unit> ObjectCheckpointStore::remove_below(const std::string& key) {
  TRY(const auto objects, store_.list(key));
  for (const StoredObject& object : objects) TRY_VOID(store_.remove(object.key));
  return Unit{};
}

Result<Unit> ObjectCheckpointStore::remove(CheckpointNumber number) {
  const std::string folder = join_path(kObjectCheckpoints, checkpoint_name(number));
  const auto found = find(number);
  TRY_VOID(store_.remove(join_path(folder, kManifestName)));  // now it does not exist
  TRY_VOID(remove_below(folder));
  if (found.has_error() || found->manifest.has_error()) return Unit{};  // open() finds its data
  const Manifest& manifest = *found->manifest;
  return discard({manifest.epoch, manifest.attempt, manifest.ordinal});
}

Result<Unit> ObjectCheckpointStore::discard(const PendingCheckpoint& pending) {
  committed_.erase(pending);
  return remove_below(data_key(pending));
}

Result<Unit> ObjectCheckpointStore::discard_before(Attempt attempt) {
  TRY(const auto all, uploaded());
  for (const PendingCheckpoint& one : all) {
    if (one.attempt < attempt && !committed_.contains(one)) TRY_VOID(discard(one));
  }
  return Unit{};
}

}  // namespace train
