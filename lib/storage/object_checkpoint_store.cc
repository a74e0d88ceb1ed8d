#include "lib/storage/object_checkpoint_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "lib/storage/staged_files.h"

namespace train {
namespace {

constexpr std::string_view kClosed = "closed by generation ";
constexpr std::size_t kUploadBytes = 1 << 20;

std::string data_key(const PendingCheckpoint& pending) {
  return join_path(kObjectCheckpoints, data_name(pending));
}

Result<CheckpointFile> upload_file(FileSystem& local, ObjectStore& store, const std::string& from,
                                   const std::string& key, const std::string& path,
                                   std::string& buffer, const OnBytes& on_bytes) {
  TRY(auto source, local.open_to_read(from));
  TRY(auto target, store.create(key));
  Hasher hasher;
  CheckpointFile file{.path = path, .bytes = 0, .digest = {}};
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

/// Return the component after "checkpoints/".
std::string folder_of(const std::string& key) {
  const std::size_t begin = kObjectCheckpoints.size() + 1;
  return key.substr(begin, key.find('/', begin) - begin);
}

PendingCheckpoint pending_of(const Manifest& manifest) {
  return {manifest.generation, manifest.attempt, manifest.checkpoint_seq};
}

std::string key_of(const Manifest& manifest, const ManifestFile& file) {
  const std::string at = file.at.empty() ? checkpoint_name(manifest.checkpoint) : file.at;
  return join_path(join_path(kObjectCheckpoints, at), file.path);
}

}  // namespace

std::string manifest_key(CheckpointNumber number) {
  return join_path(join_path(kObjectCheckpoints, checkpoint_name(number)), kManifestName);
}

std::string closed_text(Generation by) { return fmt::format("{}{}\n", kClosed, by.value); }

bool is_closed_text(std::string_view text) {
  return text.size() <= kClosedBytesMax && text.starts_with(kClosed);
}

Result<CheckpointShard> upload_shard(FileSystem& local, ObjectStore& store,
                                     const PendingCheckpoint& pending, Rank rank,
                                     const std::string& staged, const OnBytes& on_bytes) {
  TRY(const auto files, staged_files(local, staged));
  CheckpointShard shard{rank, shard_name(rank), {}};
  const std::string folder = join_path(data_key(pending), shard.dir);
  std::string buffer(kUploadBytes, '\0');
  for (const StagedFile& file : files) {
    TRY(auto uploaded, upload_file(local, store, join_path(staged, file.path),
                                   join_path(folder, file.path), file.path, buffer, on_bytes));
    shard.files.push_back(std::move(uploaded));
  }
  return shard;
}

/// The contents of the run's checkpoints folder.
struct ObjectCheckpointStore::Survey {
  CheckpointNumber taken;  // the highest number
  std::map<PendingCheckpoint, CheckpointNumber> committed;
  std::map<PendingCheckpoint, std::vector<std::string>> uploaded;  // all keys of each
  std::set<std::string> named;                                     // keys that manifests name
  std::vector<std::string> strays;  // keys in the folder of a checkpoint that does not exist
  bool unreadable = false;          // a manifest is damaged, so nobody knows what it names
};

Result<ObjectCheckpointStore::Survey> ObjectCheckpointStore::survey() const {
  Survey found;
  TRY(const auto objects, store_.list(std::string(kObjectCheckpoints)));
  std::set<std::string> there;
  for (const StoredObject& object : objects) {
    const std::string folder = folder_of(object.key);
    if (const auto pending = parse_data_name(folder))
      found.uploaded[*pending].push_back(object.key);
    const auto number = parse_checkpoint_name(folder);
    if (!number) continue;
    found.taken = std::max(found.taken, *number);
    if (object.key != manifest_key(*number)) continue;
    const auto text = store_.get(object.key, kManifestBytesMax);
    if (text.has_error() && text.error().code == Errc::NotFound) continue;
    if (text.has_error()) return text.error();
    if (is_closed_text(*text)) continue;
    there.insert(folder);
    const auto manifest = parse_manifest(*text);
    found.unreadable = found.unreadable || manifest.has_error();
    if (manifest.has_error()) continue;
    found.committed[pending_of(*manifest)] = *number;
    for (const ManifestFile& file : manifest->files) found.named.insert(key_of(*manifest, file));
  }
  for (const StoredObject& object : objects) {
    const auto number = parse_checkpoint_name(folder_of(object.key));
    if (number && !there.contains(folder_of(object.key)) && object.key != manifest_key(*number))
      found.strays.push_back(object.key);
  }
  return found;
}

Result<std::vector<PendingCheckpoint>> ObjectCheckpointStore::pending() const {
  TRY(const Survey found, survey());
  std::vector<PendingCheckpoint> pending;
  for (const auto& [one, keys] : found.uploaded)
    if (!found.committed.contains(one)) pending.push_back(one);
  return pending;
}

Result<CheckpointNumber> ObjectCheckpointStore::next_number() const {
  TRY(const auto objects, store_.list(std::string(kObjectCheckpoints)));
  CheckpointNumber highest;
  for (const StoredObject& object : objects)
    if (const auto number = parse_checkpoint_name(folder_of(object.key)))
      highest = std::max(highest, *number);
  return highest.next();
}

/// Close the next number, so that no earlier launcher can commit any more: its number would be at
/// most this one (close_numbers_before).
Result<Unit> ObjectCheckpointStore::close_next() {
  for (;;) {
    TRY(const CheckpointNumber number, next_number());
    const auto put = store_.put_new(manifest_key(number), closed_text(generation_));
    if (put.has_error() && put.error().code == Errc::AlreadyExists) continue;  // committed just now
    if (put.has_error()) return put.error();
    closed_ = number;
    return Unit{};
  }
}

Result<std::vector<std::string>> ObjectCheckpointStore::open(
    Generation current, const std::vector<PendingCheckpoint>& keep) {
  generation_ = current;
  if (Generation{1} < current) TRY_VOID(close_next());
  TRY(Survey found, survey());
  taken_ = found.taken;
  committed_ = std::move(found.committed);
  std::vector<std::string> discarded;
  unreadable_ = found.unreadable;
  if (unreadable_) return discarded;
  for (const auto& [one, keys] : found.uploaded) {
    const bool kept = std::find(keep.begin(), keep.end(), one) != keep.end();
    if (kept || !(one.generation < current)) continue;
    for (const std::string& key : keys)
      if (!found.named.contains(key)) TRY_VOID(store_.remove(key));
    if (!committed_.contains(one)) discarded.push_back(data_name(one));
  }
  for (const std::string& key : found.strays) TRY_VOID(store_.remove(key));
  return discarded;
}

/// Check that the store holds everything that was uploaded. Return the keys that it holds besides:
/// copies of files that several ranks brought.
Result<std::vector<std::string>> ObjectCheckpointStore::check_uploaded(
    const PendingCheckpoint& pending, const Manifest& manifest) {
  TRY(const auto objects, store_.list(data_key(pending)));
  std::map<std::string, std::uint64_t> bytes;
  for (const StoredObject& object : objects) bytes[object.key] = object.bytes;
  for (const ManifestFile& file : manifest.files) {
    const auto found = bytes.find(key_of(manifest, file));
    if (found == bytes.end() || found->second != file.bytes)
      return Error{Errc::Corrupt,
                   fmt::format("'{}' of rank {} was uploaded with {} bytes, and {}", file.path,
                               file.ranks.front().value, file.bytes,
                               found == bytes.end() ? "is not there"
                                                    : fmt::format("has {} there", found->second))};
    bytes.erase(found);
  }
  std::vector<std::string> besides;
  for (const auto& [key, size] : bytes) besides.push_back(key);
  return besides;
}

/// Close the free numbers below this one, so that a launcher that takes over knows the number of a
/// commit that is still on its way.
Result<Unit> ObjectCheckpointStore::close_numbers_before(CheckpointNumber number) {
  if (!taken_) {
    TRY(const CheckpointNumber next, next_number());
    taken_ = CheckpointNumber{next.value - 1};
  }
  while (taken_->next() < number) {
    const auto put = store_.put_new(manifest_key(taken_->next()), closed_text(generation_));
    if (put.has_error() && put.error().code != Errc::AlreadyExists) return put.error();
    taken_ = taken_->next();
  }
  return Unit{};
}

Result<Manifest> ObjectCheckpointStore::commit(const CommitRequest& request,
                                               const std::function<Result<Unit>()>& may_commit) {
  const std::string doing = fmt::format("committing {}", checkpoint_name(request.number));
  const PendingCheckpoint& pending = request.pending;
  auto made = manifest_of(request);
  if (made.has_error()) return std::move(made).error().with_context(doing);
  Manifest manifest = std::move(*made);
  for (ManifestFile& file : manifest.files)
    file.at = join_path(data_name(pending), shard_name(file.ranks.front()));
  const auto steps = [&]() -> Result<std::vector<std::string>> {
    if (const auto other = committed_.find(pending);
        other != committed_.end() && other->second != request.number)
      return Error{Errc::AlreadyExists,
                   fmt::format("it is {} already", checkpoint_name(other->second))};
    TRY(auto besides, check_uploaded(pending, manifest));
    TRY(const std::string text, format_manifest(manifest));
    TRY_VOID(may_commit());  // a launcher that was replaced must not take the owner's numbers
    TRY_VOID(close_numbers_before(request.number));
    TRY_VOID(may_commit());
    TRY_VOID(store_.put_new(manifest_key(request.number), text));
    return besides;
  };
  const auto done = steps();
  if (done.has_error()) {
    const Errc code = done.error().code;
    if (code != Errc::Corrupt && code != Errc::InvalidArgument)
      in_doubt_.try_emplace(pending, request.number);
    return Error(done.error()).with_context(doing);
  }
  taken_ = std::max(*taken_, request.number);
  committed_[pending] = request.number;
  in_doubt_.erase(pending);
  for (const std::string& key : *done) (void)store_.remove(key);
  return manifest;
}

Result<Unit> ObjectCheckpointStore::remove_below(const std::string& key, const std::string& but) {
  TRY(const auto objects, store_.list(key));
  for (const StoredObject& object : objects)
    if (object.key != but) TRY_VOID(store_.remove(object.key));
  return Unit{};
}

Result<Unit> ObjectCheckpointStore::remove(CheckpointNumber number) {
  const std::string key = manifest_key(number);
  TRY(const std::string text, store_.get(key, kManifestBytesMax));
  if (is_closed_text(text))
    return Error{Errc::NotFound, fmt::format("there is no {}", checkpoint_name(number))};
  // This ends the checkpoint's existence. The number of an earlier launcher's checkpoint stays
  // taken, since one of those launchers may still try to use it.
  TRY_VOID(number <= closed_ ? store_.put(key, closed_text(generation_)) : store_.remove(key));
  TRY_VOID(remove_below(join_path(kObjectCheckpoints, checkpoint_name(number)), key));
  const auto manifest = parse_manifest(text);
  if (manifest.has_error()) return Unit{};  // open() will find its data
  committed_.erase(pending_of(*manifest));
  return remove_below(data_key(pending_of(*manifest)));
}

/// Close the number intended for the checkpoint, unless the checkpoint got it. Return whether it
/// did.
Result<bool> ObjectCheckpointStore::is_committed_after_all(const PendingCheckpoint& pending) {
  const auto doubt = in_doubt_.find(pending);
  if (doubt == in_doubt_.end()) return false;
  const CheckpointNumber number = doubt->second;
  const auto put = store_.put_new(manifest_key(number), closed_text(generation_));
  if (put.has_error() && put.error().code != Errc::AlreadyExists) return put.error();
  bool committed = false;
  if (put.has_error()) {
    TRY(const std::string text, store_.get(manifest_key(number), kManifestBytesMax));
    const auto manifest = parse_manifest(text);
    committed = manifest.has_error() ? !is_closed_text(text)  // damaged: it may name this data
                                     : pending_of(*manifest) == pending;
  }
  if (committed) committed_[pending] = number;
  in_doubt_.erase(doubt);
  return committed;
}

Result<Unit> ObjectCheckpointStore::discard(const PendingCheckpoint& pending) {
  if (committed_.contains(pending) || in_doubt_.contains(pending) || may_be_named(pending))
    return Unit{};
  return remove_below(data_key(pending));
}

Result<Unit> ObjectCheckpointStore::discard_before(Attempt attempt) {
  if (dropped_before_ < attempt) {
    dropped_before_ = attempt;
    (void)store_.drop_unfinished(std::string(kObjectCheckpoints), [&](const std::string& key) {
      const auto one = parse_data_name(folder_of(key));
      return one && one->attempt < attempt;
    });
  }
  TRY(const auto objects, store_.list(std::string(kObjectCheckpoints)));
  std::set<PendingCheckpoint> earlier;
  for (const StoredObject& object : objects)
    if (const auto one = parse_data_name(folder_of(object.key)); one && one->attempt < attempt)
      earlier.insert(*one);
  for (const PendingCheckpoint& one : earlier) {
    TRY(const bool committed, is_committed_after_all(one));
    if (!committed && !committed_.contains(one) && !may_be_named(one))
      TRY_VOID(remove_below(data_key(one)));
  }
  return Unit{};
}

}  // namespace train
