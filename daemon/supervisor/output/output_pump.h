// Moves what workers print: pipes → spool → launcher, as far as the launcher's acknowledgements
// allow. The state is in the worker's slot; these are the flows.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <map>

#include "daemon/supervisor/workers/worker_slot.h"
#include "lib/net/notifier.h"
#include "lib/net/scope.h"

namespace train {

class Uplink;

class OutputPump {
 public:
  /// All arguments must outlive the flows in `scope`. The flows notify `changed` when they have
  /// read something, and wait for it until more can be sent.
  OutputPump(asio::any_io_executor executor, Scope& scope, Notifier& changed, Uplink& uplink)
      : executor_(std::move(executor)), scope_(scope), changed_(changed), uplink_(uplink) {}

  /// Make the spools of a worker.
  static Result<Unit> open_spools(WorkerSlot& slot, const std::string& spool_dir,
                                  std::uint64_t bytes_max);
  /// Read both pipes to their end, and send the output. Takes ownership of the descriptors.
  void start(WorkerSlot& slot, int stdout_fd, int stderr_fd);
  /// Read what the worker has written by now, and no more: its process stays. The rest is in
  /// OutputStream::rest then.
  static void leave(WorkerSlot& slot);
  /// Note what the launcher has. While output is sent again, that may be more than was sent.
  static void acknowledge(WorkerSlot& slot, const AckOutput& message);
  /// Send everything again that is not acknowledged, to a launcher that attached.
  static void send_again(WorkerSlot& slot);

 private:
  asio::awaitable<void> read(WorkerSlot& slot, std::size_t number, int fd);
  asio::awaitable<void> send(std::int32_t rank, OutputStream& stream);

  asio::any_io_executor executor_;
  Scope& scope_;
  Notifier& changed_;
  Uplink& uplink_;
};

}  // namespace train
