// The narrow interface between storage and the system: only what checkpoints, the journal and a
// run's folder need from a file system. PosixFileSystem (posix_file_system.h) is the real one;
// tests/fakes/store.h simulates power cuts.
//
// All calls block: callers run them on a thread pool. Errors name the path and the system's text.
// Files are never opened through a link. Different threads may use one FileSystem; a file object
// belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/result.h"

namespace train {

enum class FileKind { File, Folder, Other };  // Other: links, sockets, devices

struct FileStatus {
  FileKind kind = FileKind::File;
  std::uint64_t bytes = 0;
  std::uint64_t inode = 0;
  bool foreign = false;  // another user owns it
};

struct FolderEntry {
  std::string name;
  FileKind kind = FileKind::File;
  bool operator==(const FolderEntry&) const = default;
};

/// A file open for writing at its end. Closed on destruction; the bytes are safe only after sync().
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  /// Write all of `bytes`, or fail; after a failure the file may contain a part of them.
  virtual Result<Unit> write(std::string_view bytes) = 0;
  /// Sync the data (fdatasync). After a failure the file is lost: never call this again, but write
  /// another file.
  virtual Result<Unit> sync() = 0;
  virtual Result<Unit> truncate(std::uint64_t bytes) = 0;
};

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  /// Read up to `size` bytes from the current position; 0 at the end.
  virtual Result<std::size_t> read(char* buffer, std::size_t size) = 0;
  /// Start writing the data to disk, so that a later sync() takes less time.
  virtual void begin_sync() {}
  /// Sync the file (fsync), for a file that was moved into place rather than written.
  virtual Result<Unit> sync() = 0;
};

/// An exclusive flock, held until this object is destroyed or the process dies.
class FileLock {
 public:
  virtual ~FileLock() = default;
  /// Replace the file's text, which is only information (not synced).
  virtual Result<Unit> describe(std::string_view text) = 0;
  virtual std::uint64_t inode() const = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// Create a file. AlreadyExists if the name is taken.
  virtual Result<std::unique_ptr<WritableFile>> create(const std::string& path) = 0;
  /// Open a file for appending. NotFound if there is no such file.
  virtual Result<std::unique_ptr<WritableFile>> open_to_append(const std::string& path) = 0;
  virtual Result<std::unique_ptr<ReadableFile>> open_to_read(const std::string& path) = 0;
  /// Create the file if missing, and lock it. Unavailable if another process holds the lock.
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path) = 0;

  /// Rename, atomically replacing a file at `to`. Both must be on one file system (see
  /// same_file_system).
  virtual Result<Unit> rename(const std::string& from, const std::string& to) = 0;
  /// Rename, but return AlreadyExists if `to` exists.
  virtual Result<Unit> rename_new(const std::string& from, const std::string& to) = 0;
  virtual Result<Unit> make_folder(const std::string& path) = 0;
  virtual Result<Unit> remove_file(const std::string& path) = 0;
  virtual Result<Unit> remove_folder(const std::string& path) = 0;
  /// See remove_tree() below.
  virtual Result<Unit> remove_all(const std::string& path);
  /// Sync a folder (fsync), so that names created, moved or removed in it are safe.
  virtual Result<Unit> sync_folder(const std::string& path) = 0;

  virtual Result<FileStatus> status(const std::string& path) = 0;
  /// Return the entries sorted by name, without "." and "..".
  virtual Result<std::vector<FolderEntry>> list(const std::string& path) = 0;
  /// Return how many bytes an ordinary user can still write there.
  virtual Result<std::uint64_t> free_bytes(const std::string& path) = 0;
  /// Return whether a rename from one folder to the other can work.
  virtual Result<bool> same_file_system(const std::string& a, const std::string& b) = 0;
};

std::string join_path(std::string_view folder, std::string_view name);
/// Return the parent: "/a/b" for "/a/b/c", "." for a bare name.
std::string parent_path(std::string_view path);

/// Read a whole small file; ResourceExhausted if it is larger than `bytes_max`.
Result<std::string> read_small_file(FileSystem& fs, const std::string& path,
                                    std::uint64_t bytes_max);
/// Replace a file as a whole: write a temporary file beside it, fsync, rename, fsync the folder.
/// One writer per path at a time.
Result<Unit> write_small_file(FileSystem& fs, const std::string& path, std::string_view text);
/// Make `path` and the folders above it if missing, and sync the parent of each new folder.
Result<Unit> make_folders(FileSystem& fs, const std::string& path);
/// Remove a folder and everything in it. Links are removed, not followed. A missing folder is no
/// error.
Result<Unit> remove_tree(FileSystem& fs, const std::string& path);

}  // namespace train
