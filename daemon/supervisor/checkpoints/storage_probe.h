// Checks, before workers are started, whether this node has the launcher's storage and may write
// there. It does so on its own thread, because a network file system may answer late, or never.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <optional>

#include "lib/base/time.h"
#include "lib/net/notifier.h"
#include "lib/net/task.h"
#include "lib/storage/posix_file_system.h"
#include "lib/storage/storage_marker.h"
#include "lib/wire/daemon_messages.h"

namespace train {

/// Until what the launcher wrote is visible through a network file system's caches.
inline constexpr Duration kMarkSeenMax = seconds(2);
inline constexpr Duration kStorageAnswerMax = seconds(20);  // after that we report that it hangs

class StorageProbe {
 public:
  StorageProbe(asio::any_io_executor executor, const Clock& clock)
      : executor_(executor), clock_(clock), changed_(executor) {}

  /// Call check_storage(), and again while the launcher's mark may still become visible (unless the
  /// launcher knows that this node does not see it). Errors: Timeout, if storage does not answer at
  /// all. Check nothing for a launcher that leaves no mark. One call at a time.
  Task<Unit> run(PrepareAttempt message);

 private:
  Task<Unit> look(StorageCheck check, TimePoint deadline);

  asio::any_io_executor executor_;
  const Clock& clock_;
  Notifier changed_;
  std::optional<Result<Unit>> answer_;
  PosixFileSystem files_;
  boost::asio::thread_pool pool_{1};
};

}  // namespace train
