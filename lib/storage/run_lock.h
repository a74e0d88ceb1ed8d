// Who owns a run: one launcher at a time, by flock on <run>/.lock. A second one is told who holds
// it; --force replaces the lock, and the earlier owner finds itself fenced before its next effect.
// Blocks briefly; any thread.
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
  /// AlreadyExists when another one holds it; the message names host, pid and start.
  static Result<RunLock> acquire(FileSystem& fs, const std::string& path, const LockHolder& holder);
  /// Take it whoever holds it. The caller then opens the journal anew and takes a generation.
  static Result<RunLock> take_over(FileSystem& fs, const std::string& path,
                                   const LockHolder& holder);

  /// Fenced when somebody has taken over since. Asked before each commit of a checkpoint or group
  /// of the journal.
  Result<Unit> check() const;

 private:
  RunLock(FileSystem& fs, std::string path, std::unique_ptr<FileLock> lock)
      : fs_(&fs), path_(std::move(path)), lock_(std::move(lock)) {}
  FileSystem* fs_;
  std::string path_;
  std::unique_ptr<FileLock> lock_;
};

/// Who wrote the lock's text last; nothing where there is none or it cannot be read. It may have
/// died since.
std::optional<LockHolder> read_lock_holder(FileSystem& fs, const std::string& path);

}  // namespace train
