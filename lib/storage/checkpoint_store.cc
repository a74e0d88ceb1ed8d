#include "lib/storage/checkpoint_store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lib/base/parallel.h"
#include "lib/storage/commit.h"

namespace train {
namespace {

constexpr std::string_view kTrashPrefix = ".trash-";
// Reading this many bytes takes longer than starting a thread.
constexpr std::uint64_t kBytesAThread = 1 << 20;
constexpr std::size_t kReadBytes = 256 << 10;  // so small that it is still cached when digested

Error corrupt(const std::string& folder, std::string_view file, std::string_view what) {
  return Error{Errc::Corrupt, fmt::format("{}: '{}': {}", folder, file, what)};
}

Error wrong_number(const std::string& folder, CheckpointNumber found) {
  return corrupt(folder, kManifestName,
                 fmt::format("is the manifest of {}", checkpoint_name(found)));
}

Result<Unit> verify_file(FileSystem& fs, const std::string& folder, const ManifestFile& expected,
                         const OnBytes& on_bytes) {
  TRY(auto file, fs.open_to_read(join_path(folder, expected.path)));
  std::string buffer(std::clamp<std::uint64_t>(expected.bytes, 1, kReadBytes), '\0');
  Hasher hasher;
  for (;;) {
    TRY(const std::size_t got, file->read(buffer.data(), buffer.size()));
    if (got == 0) return check_digest(folder, expected, hasher.digest());
    hasher.update(std::string_view(buffer.data(), got));
    if (on_bytes) TRY_VOID(on_bytes(got));
  }
}

/// Return whether the checkpoint will never be intact again: bytes are wrong or gone, or lie on a
/// bad sector. After other errors (no answer, no permission, a manifest of another version) it may
/// be.
bool is_lost(Errc code) {
  return code == Errc::Corrupt || code == Errc::NotFound || code == Errc::Io;
}

/// Return the number in ".trash-000012" or ".trash-000012.1".
std::optional<CheckpointNumber> parse_trash_name(std::string_view name) {
  if (!name.starts_with(kTrashPrefix)) return std::nullopt;
  name.remove_prefix(kTrashPrefix.size());
  return parse_checkpoint_name(fmt::format("checkpoint_{}", name.substr(0, name.find('.'))));
}

}  // namespace

Result<Unit> check_structure(FileSystem& fs, const std::string& folder, const Manifest& manifest) {
  for (const ManifestFile& file : manifest.files) {
    if (!file.nodes.empty()) continue;
    auto status = fs.status(join_path(folder, file.path));
    if (status.has_error()) {
      if (status.error().code == Errc::NotFound) return corrupt(folder, file.path, "missing");
      return status.error();
    }
    if (status->kind != FileKind::File) return corrupt(folder, file.path, "not a plain file");
    if (status->bytes != file.bytes)
      return corrupt(folder, file.path,
                     fmt::format("{} bytes, expected {}", status->bytes, file.bytes));
  }
  return Unit{};
}

Result<Unit> check_digest(const std::string& folder, const ManifestFile& file,
                          const Digest& found) {
  if (found == file.digest) return Unit{};
  return corrupt(folder, file.path,
                 fmt::format("xxh3-128 is {}, expected {}", to_hex(found), to_hex(file.digest)));
}

Result<Unit> verify_files(FileSystem& fs, const std::string& folder, const Manifest& manifest,
                          const OnBytes& on_bytes) {
  TRY_VOID(check_structure(fs, folder, manifest));
  std::vector<Result<Unit>> verified(manifest.files.size(), Unit{});
  const std::size_t threads = manifest.total_bytes() / kBytesAThread;
  in_parallel(verified.size(), threads, [&](std::size_t i) {
    const ManifestFile& file = manifest.files[i];
    if (file.nodes.empty()) verified[i] = verify_file(fs, folder, file, on_bytes);
    return !verified[i].has_error();
  });
  for (Result<Unit>& one : verified) TRY_VOID(std::move(one));
  return Unit{};
}

Result<Manifest> read_checkpoint(FileSystem& fs, const std::string& folder) {
  TRY(auto manifest, read_manifest(fs, folder));
  TRY_VOID(check_structure(fs, folder, manifest));
  return manifest;
}

Result<Manifest> verify_checkpoint(FileSystem& fs, const std::string& folder) {
  TRY(auto manifest, read_manifest(fs, folder));
  TRY_VOID(check_all_here(folder, manifest));
  TRY_VOID(verify_files(fs, folder, manifest));
  return manifest;
}

Result<Unit> check_all_here(const std::string& folder, const Manifest& manifest) {
  const auto nodes = manifest.nodes();
  if (nodes.empty()) return Unit{};
  return Error{
      Errc::Unavailable,
      fmt::format("the files of {} are on the disks of {}", folder, fmt::join(nodes, ", ")),
      "they are copied here when the run ends; if it has already ended, use `train-run resume`"};
}

Result<Unit> keep_here(FileSystem& fs, const std::string& folder) {
  TRY(auto manifest, read_manifest(fs, folder));
  for (ManifestFile& file : manifest.files) file.at.clear(), file.nodes.clear();
  TRY_VOID(check_structure(fs, folder, manifest));
  TRY(const std::string text, format_manifest(std::move(manifest)));
  return write_small_file(fs, join_path(folder, kManifestName), text);
}

bool is_gone(FileSystem& fs, const std::string& folder) {
  const auto status = fs.status(folder);
  return status.has_error() && status.error().code == Errc::NotFound;
}

Result<Manifest> manifest_of(const CommitRequest& request) {
  TRY(auto files, merge_shards(request.shards, request.world_size));
  return Manifest{.checkpoint = request.number,
                  .generation = request.pending.generation,
                  .attempt = request.pending.attempt,
                  .checkpoint_seq = request.pending.checkpoint_seq,
                  .world_size = request.world_size,
                  .created = request.created,
                  .files = std::move(files),
                  .metrics = request.metrics,
                  .metadata = request.metadata};
}

Result<std::vector<PendingCheckpoint>> CheckpointStore::pending() const {
  std::vector<PendingCheckpoint> pending;
  const auto entries = fs_.list(folder_);
  if (entries.has_error()) {
    if (entries.error().code == Errc::NotFound) return pending;
    return entries.error();
  }
  for (const FolderEntry& entry : *entries)
    if (const auto parsed = parse_pending_name(entry.name)) pending.push_back(*parsed);
  return pending;
}

Result<std::vector<std::string>> CheckpointStore::open(Generation current,
                                                       const std::vector<PendingCheckpoint>& keep) {
  TRY_VOID(make_folders(fs_, folder_));
  TRY(const auto entries, fs_.list(folder_));
  std::vector<std::string> discarded;
  for (const FolderEntry& entry : entries) {
    const auto pending = parse_pending_name(entry.name);
    const bool stale = pending && pending->generation < current &&
                       std::find(keep.begin(), keep.end(), *pending) == keep.end();
    if (!stale && !entry.name.starts_with(kTrashPrefix)) continue;
    // Nobody reads it, so it may stay, such as one that a worker on NFS has still open.
    if (remove_tree(fs_, join_path(folder_, entry.name)).has_error()) continue;
    discarded.push_back(entry.name);
  }
  return discarded;
}

Result<Manifest> CheckpointStore::commit(const CommitRequest& request,
                                         const std::function<Result<Unit>()>& may_commit) {
  const std::string doing = fmt::format("committing {}", checkpoint_name(request.number));
  auto made = manifest_of(request);
  if (made.has_error()) return std::move(made).error().with_context(doing);
  Manifest manifest = std::move(*made);
  const std::string pending = join_path(folder_, pending_name(request.pending));
  const auto steps = [&]() -> Result<Unit> {
    TRY_VOID(assemble(fs_, pending, request.shards, manifest.files));
    TRY_VOID(write_manifest(fs_, pending, manifest));
    TRY_VOID(may_commit());
    return publish(fs_, pending, path_of(request.number));
  };
  auto done = steps();
  if (done.has_error()) return std::move(done).error().with_context(doing);
  return manifest;
}

Result<std::vector<ListedCheckpoint>> CheckpointStore::list() const {
  std::vector<ListedCheckpoint> listed;
  auto entries = fs_.list(folder_);
  if (entries.has_error()) {
    if (entries.error().code == Errc::NotFound) return listed;
    return entries.error();
  }
  for (const FolderEntry& entry : *entries) {
    const auto number = parse_checkpoint_name(entry.name);
    if (!number || entry.kind != FileKind::Folder) continue;
    auto one = find(*number);
    if (!one.has_error()) listed.push_back(std::move(*one));
  }
  std::sort(listed.begin(), listed.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  return listed;
}

Result<ListedCheckpoint> CheckpointStore::find(CheckpointNumber number) const {
  std::string path = path_of(number);
  auto manifest = read_checkpoint(fs_, path);
  if (!manifest.has_error() && manifest->checkpoint != number)
    manifest = wrong_number(path, manifest->checkpoint);
  if (manifest.has_error() && is_gone(fs_, path))
    return Error{Errc::NotFound, fmt::format("no {} in '{}'", checkpoint_name(number), folder_)};
  ListedCheckpoint listed{number, std::move(path), std::move(manifest)};
  if (auto validation = read_validation(fs_, listed.path); !validation.has_error())
    listed.validation = std::move(*validation);
  return listed;
}

Result<std::optional<Restorable>> CheckpointStore::latest() const {
  TRY(auto listed, list());
  for (auto one = listed.rbegin(); one != listed.rend(); ++one)
    if (!one->manifest.has_error())
      return Restorable{one->number, one->path, std::move(*one->manifest)};
  return std::optional<Restorable>();
}

Result<RestoreChoice> CheckpointStore::open_for_restore() const {
  TRY(auto listed, list());
  RestoreChoice choice;
  for (auto one = listed.rbegin(); one != listed.rend(); ++one) {
    Result<Unit> intact = Unit{};
    if (one->manifest.has_error()) {
      intact = one->manifest.error();
    } else {
      intact = verify_files(fs_, one->path, *one->manifest);
    }
    if (!intact.has_error()) {
      choice.checkpoint = Restorable{one->number, one->path, std::move(*one->manifest)};
      return choice;
    }
    if (!is_lost(intact.error().code)) {
      Error error = intact.error();
      if (error.hint.empty())
        error.hint = "try again once it can be read; without its folder an older one is used";
      return std::move(error).with_context("reading " + checkpoint_name(one->number));
    }
    choice.warnings.push_back(fmt::format("skipping {}, which is not intact: {}",
                                          checkpoint_name(one->number), intact.error().message));
  }
  return choice;
}

Result<Manifest> CheckpointStore::verify(CheckpointNumber number) const {
  const std::string path = path_of(number);
  TRY(auto manifest, verify_checkpoint(fs_, path));
  if (manifest.checkpoint != number) return wrong_number(path, manifest.checkpoint);
  return manifest;
}

Result<CheckpointNumber> CheckpointStore::next_number() const {
  CheckpointNumber highest;
  const auto entries = fs_.list(folder_);
  if (entries.has_error() && entries.error().code == Errc::NotFound) return highest.next();
  if (entries.has_error()) return entries.error();
  for (const FolderEntry& entry : *entries) {
    if (const auto number = parse_checkpoint_name(entry.name)) highest = std::max(highest, *number);
    if (const auto number = parse_trash_name(entry.name)) highest = std::max(highest, *number);
  }
  return highest.next();
}

Result<Unit> CheckpointStore::remove(CheckpointNumber number) {
  constexpr int kTrashNamesMax = 100;
  for (int n = 0; n < kTrashNamesMax; ++n) {
    const std::string trash = join_path(
        folder_,
        fmt::format("{}{:06}{}", kTrashPrefix, number.value, n == 0 ? "" : fmt::format(".{}", n)));
    auto renamed = fs_.rename_new(path_of(number), trash);
    if (renamed.has_error() && renamed.error().code == Errc::AlreadyExists)
      continue;  // an earlier removal was interrupted
    if (renamed.has_error())
      return std::move(renamed).error().with_context("removing a checkpoint");
    TRY_VOID(fs_.sync_folder(folder_));
    return remove_tree(fs_, trash);
  }
  return Error{Errc::ResourceExhausted,
               fmt::format("'{}' holds {} removals of {} that were cut short", folder_,
                           kTrashNamesMax, checkpoint_name(number))};
}

Result<Unit> CheckpointStore::discard(const PendingCheckpoint& pending) {
  return remove_tree(fs_, join_path(folder_, pending_name(pending)));
}

Result<Unit> CheckpointStore::discard_before(Attempt attempt) {
  TRY(const auto entries, fs_.list(folder_));
  for (const FolderEntry& entry : entries) {
    const auto pending = parse_pending_name(entry.name);
    if (pending && pending->attempt < attempt) TRY_VOID(discard(*pending));
  }
  return Unit{};
}

}  // namespace train
