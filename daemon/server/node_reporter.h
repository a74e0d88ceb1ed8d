// Tells launchers what this node and its GPUs are doing. Main thread; the readings run on threads
// of their own, since a driver or a file system may hang.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "daemon/core/gpu_grant.h"
#include "daemon/devices/gpu_watch.h"
#include "lib/net/task.h"
#include "lib/wire/daemon_messages.h"

namespace train {

inline constexpr Duration kNodeStatusEvery = seconds(2);
/// Unread bytes on a launcher's link; with more, a status is left out.
inline constexpr std::size_t kNodeStatusQueueBytesMax = 1u << 20;

class NodeReporter {
 public:
  /// `gpus`: NodeInventory::gpus. `spool`: a folder on the disk whose space is told.
  NodeReporter(const std::vector<std::string>& gpus, std::string spool)
      : gpus_(gpus), spool_(std::move(spool)) {}

  /// Each 2 s, while `wanted` says so, pass what the node is doing to `told`. Ends when the flow is
  /// cancelled. While a reading hangs, nothing is told.
  asio::awaitable<void> run(std::function<bool()> wanted,
                            std::function<void(NodeStatus)> told) const;

  /// Return who uses GPUs, though no run of trainrun does: GPU → "pid 4242 (python3) of alice".
  GpusInUse gpus_in_use() const;
  /// Wait until each GPU has been asked who uses it, but no longer than a driver may take.
  asio::awaitable<void> gpus_asked() const;

 private:
  GpuWatch gpus_;
  std::string spool_;
};

}  // namespace train
