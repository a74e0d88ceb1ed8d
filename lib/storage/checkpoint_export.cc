#include "lib/storage/checkpoint_export.h"

#include <fmt/format.h>

#include "lib/storage/new_folders.h"
#include "lib/storage/validation_record.h"

namespace train {
namespace {

constexpr std::size_t kCopyBytes = 1 << 20;
constexpr std::string_view kLockName = ".lock";  // no file of a checkpoint begins with '.'

/// Copy what validation found out about the checkpoint, to the byte, if it can be read.
Result<Unit> copy_validation(FileSystem& source_files, const std::string& source, FileSystem& fs,
                             const std::string& target) {
  const auto there = read_validation(source_files, source);
  if (!there || !*there) return Unit{};
  const auto here = read_validation(fs, target);
  if (here && *here == *there) return Unit{};
  return write_validation(fs, target, **there);
}

/// Copies the files of one checkpoint into a folder that is there, and syncs them.
class Copier {
 public:
  Copier(FileSystem& source_files, std::string source, FileSystem& fs, std::string target,
         const OnBytes& on_bytes)
      : source_files_(source_files),
        fs_(fs),
        source_(std::move(source)),
        target_(std::move(target)),
        folders_(fs, target_),
        on_bytes_(on_bytes),
        buffer_(kCopyBytes, '\0') {}

  Result<Unit> copy(const Manifest& manifest, std::string_view manifest_text) {
    for (const ManifestFile& file : manifest.files) {
      TRY_VOID(folders_.make_for(file.path));
      TRY_VOID(copy_file(file));
    }
    {
      TRY(auto file, fs_.create(join_path(target_, kManifestName)));
      TRY_VOID(file->write(manifest_text));
      TRY_VOID(file->sync());
    }
    TRY_VOID(copy_validation(source_files_, source_, fs_, target_));
    return folders_.sync();
  }

 private:
  Result<Unit> copy_file(const ManifestFile& file) {
    TRY(auto from, source_files_.open_to_read(join_path(source_, file.path)));
    TRY(auto to, fs_.create(join_path(target_, file.path)));
    Hasher hasher;
    for (;;) {
      TRY(const std::size_t got, from->read(buffer_.data(), buffer_.size()));
      if (got == 0) break;
      const std::string_view bytes(buffer_.data(), got);
      hasher.update(bytes);
      TRY_VOID(to->write(bytes));
      if (on_bytes_) TRY_VOID(on_bytes_(got));
    }
    TRY_VOID(check_digest(source_, file, hasher.digest()));
    return to->sync();
  }

  FileSystem& source_files_;
  FileSystem& fs_;
  const std::string source_, target_;
  NewFolders folders_;
  const OnBytes& on_bytes_;
  std::string buffer_;
};

/// Return whether `target` is an empty folder; an error if it is anything else but missing.
Result<bool> is_empty_folder(FileSystem& fs, const std::string& target) {
  if (is_gone(fs, target)) return false;
  TRY(const FileStatus status, fs.status(target));
  const std::string hint = "name a folder that does not exist yet, or is empty";
  if (status.kind != FileKind::Folder)
    return Error{Errc::AlreadyExists, fmt::format("'{}' exists and is not a directory", target),
                 hint};
  TRY(const auto entries, fs.list(target));
  if (!entries.empty())
    return Error{Errc::AlreadyExists, fmt::format("the folder '{}' is not empty", target), hint};
  return true;
}

Result<Unit> check_space(FileSystem& fs, const std::string& folder, std::uint64_t needed) {
  TRY(const std::uint64_t free, fs.free_bytes(folder));
  if (free >= needed) return Unit{};
  return Error{Errc::NoSpace, fmt::format("the checkpoint has {} bytes, {} are free in '{}'",
                                          needed, free, folder)};
}

/// Check that a folder that exists is one that an export left when it was killed, and no link, no
/// folder of another user's and no other one of ours.
Result<Unit> check_leftover(FileSystem& fs, const std::string& folder) {
  const auto refuse = [&](std::string_view what) {
    return Error{Errc::AlreadyExists,
                 fmt::format("the files are first copied to '{}', which {}", folder, what),
                 "remove it, or name another folder"};
  };
  TRY(const FileStatus status, fs.status(folder));
  if (status.kind != FileKind::Folder) return refuse("exists and is not a directory");
  if (status.foreign) return refuse("another user owns");
  TRY(const auto entries, fs.list(folder));
  const bool has_lock = std::any_of(entries.begin(), entries.end(), [](const FolderEntry& entry) {
    return entry.name == kLockName && entry.kind == FileKind::File;
  });
  if (!entries.empty() && !has_lock) return refuse("holds files that no export has left");
  return Unit{};
}

/// Make the folder where the bytes are gathered, empty except for the lock that makes it ours.
Result<std::unique_ptr<FileLock>> take_folder(FileSystem& fs, const std::string& folder) {
  if (auto made = fs.make_folder(folder); made.has_error()) {
    if (made.error().code != Errc::AlreadyExists) return made.error();
    TRY_VOID(check_leftover(fs, folder));
  }
  auto lock = fs.lock(join_path(folder, kLockName));
  if (lock.has_error()) {
    (void)fs.remove_folder(folder);  // does nothing where another one's files are in it
    if (lock.error().code != Errc::Unavailable) return lock.error();
    return Error{Errc::AlreadyExists, fmt::format("another process writes to '{}'", folder),
                 "wait for it, or name another folder"};
  }
  TRY(const auto entries, fs.list(folder));
  for (const FolderEntry& entry : entries) {  // of one that was killed
    if (entry.name == kLockName) continue;
    const std::string path = join_path(folder, entry.name);
    TRY_VOID(entry.kind == FileKind::Folder ? remove_tree(fs, path) : fs.remove_file(path));
  }
  return lock;
}

}  // namespace

Result<Manifest> export_checkpoint(FileSystem& source_files, const std::string& source,
                                   FileSystem& fs, const std::string& target,
                                   const OnBytes& on_bytes) {
  TRY(const std::string text,
      read_small_file(source_files, join_path(source, kManifestName), kManifestBytesMax));
  TRY(auto manifest, read_checkpoint(source_files, source));
  TRY_VOID(check_all_here(source, manifest));
  TRY(const bool replaces_empty, is_empty_folder(fs, target));
  const std::string parent = parent_path(target);
  TRY_VOID(make_folders(fs, parent));
  const std::string gathered =
      join_path(parent, fmt::format(".{}.tmp", target.substr(target.rfind('/') + 1)));
  TRY(const auto lock, take_folder(fs, gathered));
  const auto steps = [&]() -> Result<Unit> {
    TRY_VOID(check_space(fs, gathered, manifest.total_bytes()));
    TRY_VOID(Copier(source_files, source, fs, gathered, on_bytes).copy(manifest, text));
    if (replaces_empty) TRY_VOID(fs.remove_folder(target));
    return fs.rename_new(gathered, target);
  };
  if (auto done = steps(); done.has_error()) {
    (void)remove_tree(fs, gathered);
    if (is_gone(source_files, source))
      return Error{
          Errc::NotFound,
          fmt::format("'{}' was removed while it was being copied: its run keeps only newer ones",
                      source),
          "export a newer one"};
    return done.error();
  }
  TRY_VOID(fs.sync_folder(parent));
  // Remove the lock last: as long as it had the old name, nobody else could take that folder.
  (void)fs.remove_file(join_path(target, kLockName));
  return manifest;
}

Result<Pulled> pull_checkpoint(FileSystem& source_files, const std::string& source, FileSystem& fs,
                               const std::string& target, const OnBytes& on_bytes) {
  const auto there = read_small_file(fs, join_path(target, kManifestName), kManifestBytesMax);
  if (!there.has_error()) {
    TRY(const std::string text,
        read_small_file(source_files, join_path(source, kManifestName), kManifestBytesMax));
    if (*there != text)
      return Error{Errc::AlreadyExists, fmt::format("'{}' holds another checkpoint", target),
                   "pull into another folder"};
    auto intact = read_checkpoint(fs, target);
    if (intact.has_error())
      return Error{Errc::AlreadyExists, intact.error().message, "remove that copy, and pull again"};
    TRY_VOID(copy_validation(source_files, source, fs, target));
    return Pulled::WasThere;
  }
  TRY_VOID(export_checkpoint(source_files, source, fs, target, on_bytes));
  return Pulled::Copied;
}

}  // namespace train
