// The narrow seam between storage and the system: what a checkpoint, the journal and a run's folder
// need of a file system, no more. PosixFileSystem (posix_file_system.h) is the real one;
// tests/fakes/store.h loses power.
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
};

struct FolderEntry {
  std::string name;
  FileKind kind = FileKind::File;
  bool operator==(const FolderEntry&) const = default;
};

/// A file open for writing at its end. Closed on destruction; only sync() says that the bytes are
/// safe.
class WritableFile {
 public:
  virtual ~WritableFile() = default;
  /// Write all of `bytes`, or fail; after a failure a part of them may be in the file.
  virtual Result<Unit> write(std::string_view bytes) = 0;
  /// Sync the data (fdatasync). After a failure the file is lost: never call it again, write
  /// another file.
  virtual Result<Unit> sync() = 0;
  virtual Result<Unit> truncate(std::uint64_t bytes) = 0;
};

class ReadableFile {
 public:
  virtual ~ReadableFile() = default;
  /// Read up to `size` bytes from the current place; 0 at the end.
  virtual Result<std::size_t> read(char* buffer, std::size_t size) = 0;
  /// Let the disk begin to write the data, so that a later sync() waits less.
  virtual void begin_sync() {}
  /// Sync the file (fsync), for a file that was moved into place rather than written.
  virtual Result<Unit> sync() = 0;
};

/// An exclusive flock, held until this object is destroyed or the process dies.
class FileLock {
 public:
  virtual ~FileLock() = default;
  /// Replace the file's text (not synced: it only informs).
  virtual Result<Unit> describe(std::string_view text) = 0;
  virtual std::uint64_t inode() const = 0;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;

  /// Create a file. AlreadyExists when the name is taken.
  virtual Result<std::unique_ptr<WritableFile>> create(const std::string& path) = 0;
  /// Open a file for appending. NotFound when there is no such file.
  virtual Result<std::unique_ptr<WritableFile>> open_to_append(const std::string& path) = 0;
  virtual Result<std::unique_ptr<ReadableFile>> open_to_read(const std::string& path) = 0;
  /// Create the file if it is missing, and lock it. Unavailable when somebody else holds it.
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path) = 0;

  /// Rename, atomically replacing a file at `to`. Both must be on one file system (see
  /// same_file_system).
  virtual Result<Unit> rename(const std::string& from, const std::string& to) = 0;
  /// Rename, but return AlreadyExists when `to` is there.
  virtual Result<Unit> rename_new(const std::string& from, const std::string& to) = 0;
  virtual Result<Unit> make_folder(const std::string& path) = 0;
  virtual Result<Unit> remove_file(const std::string& path) = 0;
  virtual Result<Unit> remove_folder(const std::string& path) = 0;
  /// See remove_tree() below.
  virtual Result<Unit> remove_all(const std::string& path);
  /// Sync a folder (fsync): names made, moved or removed in it are safe afterwards.
  virtual Result<Unit> sync_folder(const std::string& path) = 0;

  virtual Result<FileStatus> status(const std::string& path) = 0;
  /// Return the entries sorted by name, without "." and "..".
  virtual Result<std::vector<FolderEntry>> list(const std::string& path) = 0;
  /// Return the bytes that an ordinary user may still write there.
  virtual Result<std::uint64_t> free_bytes(const std::string& path) = 0;
  /// Return whether a rename from one folder to the other can work.
  virtual Result<bool> same_file_system(const std::string& a, const std::string& b) = 0;
};

std::string join_path(std::string_view folder, std::string_view name);
/// Return the parent: "/a/b" of "/a/b/c", "." of a bare name.
std::string parent_path(std::string_view path);

/// Read a small file whole; ResourceExhausted when it is larger than `bytes_max`.
Result<std::string> read_small_file(FileSystem& fs, const std::string& path,
                                    std::uint64_t bytes_max);
/// Replace a file whole: write a temporary file beside it, fsync, rename, fsync the folder. One
/// writer per path at a time.
Result<Unit> write_small_file(FileSystem& fs, const std::string& path, std::string_view text);
/// Make `path` and the folders above it if missing, and sync each new name into its parent.
Result<Unit> make_folders(FileSystem& fs, const std::string& path);
/// Remove a folder and all that is in it. Links are removed, not followed. It is no error when the
/// folder is missing.
Result<Unit> remove_tree(FileSystem& fs, const std::string& path);

}  // namespace train
