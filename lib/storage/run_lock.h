// This file makes one launcher at a time the owner of a run, by flock on <run>/.lock. A second
// launcher is told who holds the lock. --force replaces the lock, and the earlier owner finds
// itself fenced before its next effect. Calls block briefly; any thread may call.
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
  /// Acquire the lock. AlreadyExists when another launcher holds it; the message names host, pid
  /// and start.
  static Result<RunLock> acquire(FileSystem& fs, const std::string& path, const LockHolder& holder);
  /// Take the lock whoever holds it. The caller then opens the journal anew and takes a generation.
  static Result<RunLock> take_over(FileSystem& fs, const std::string& path,
                                   const LockHolder& holder);

  /// Return Fenced when somebody has taken over since. The owner asks before each commit of a
  /// checkpoint, and before each group of the journal.
  Result<Unit> check() const;

 private:
  RunLock(FileSystem& fs, std::string path, std::unique_ptr<FileLock> lock)
      : fs_(&fs), path_(std::move(path)), lock_(std::move(lock)) {}
  FileSystem* fs_;
  std::string path_;
  std::unique_ptr<FileLock> lock_;
};

/// Return who wrote the lock's text last; nothing if there is none or it cannot be read. That
/// launcher may have died since.
std::optional<LockHolder> read_lock_holder(FileSystem& fs, const std::string& path);

}  // namespace train
