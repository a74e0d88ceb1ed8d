// This file makes one launcher at a time the owner of a run, with flock on <run>/.lock. A second
// launcher gets an error that names the holder. --force replaces the lock, and the earlier owner is
// fenced before its next effect. Calls block briefly; any thread may call.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lib/storage/file_system.h"

namespace train {

struct LockHolder {
  std::string host;
  int pid = 0;
  std::string started;  // RFC 3339: when it took the run
  bool operator==(const LockHolder&) const = default;
};

class RunLock {
 public:
  /// Acquire the lock. AlreadyExists if another launcher holds it; the message names its host, pid
  /// and start.
  static Result<RunLock> acquire(FileSystem& fs, const std::string& path, const LockHolder& holder);
  /// Take the lock even if somebody holds it. The caller must then open the journal anew and take a
  /// generation.
  static Result<RunLock> take_over(FileSystem& fs, const std::string& path,
                                   const LockHolder& holder);

  /// Return Fenced if somebody has taken over since. The owner checks before each commit of a
  /// checkpoint, and before each group of the journal.
  Result<Unit> check() const;

 private:
  RunLock(FileSystem& fs, std::string path, std::unique_ptr<FileLock> lock)
      : fs_(&fs), path_(std::move(path)), lock_(std::move(lock)) {}
  FileSystem* fs_;
  std::string path_;
  std::unique_ptr<FileLock> lock_;
};

/// Return whether a launcher holds the lock. This needs only permission to read the lock's file,
/// and creates none.
Result<bool> is_held(const std::string& path);

/// Return the last launcher that wrote the lock's text; nothing if there is none or the text cannot
/// be read. That launcher may have died since.
std::optional<LockHolder> read_lock_holder(FileSystem& fs, const std::string& path);

}  // namespace train
