// Moves what workers print: pipes → spool → launcher, as far as the launcher's acknowledgements let
// it. The state is in the worker's seat; these are the flows.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <map>

#include "daemon/supervisor/worker_seat.h"
#include "lib/net/notifier.h"
#include "lib/net/scope.h"

namespace train {

class Uplink;

class OutputPump {
 public:
  /// All of them must outlive the flows in `scope`. `changed` is told when something was read, and
  /// tells when more can be sent.
  OutputPump(asio::any_io_executor executor, Scope& scope, Notifier& changed, Uplink& uplink)
      : executor_(std::move(executor)), scope_(scope), changed_(changed), uplink_(uplink) {}

  /// Make the spools of a worker.
  static Result<Unit> open_spools(WorkerSeat& seat, const std::string& spool_dir,
                                  std::uint64_t bytes_max);
  /// Read both pipes to their end (owning the descriptors), and send what comes.
  void start(WorkerSeat& seat, int stdout_fd, int stderr_fd);
  static void acknowledge(WorkerSeat& seat, const AckOutput& message);
  /// Everything that is not acknowledged, from the start: for a launcher that attached.
  static void send_again(WorkerSeat& seat);

 private:
  asio::awaitable<void> read(WorkerSeat& seat, std::size_t number, int fd);
  asio::awaitable<void> send(std::int32_t rank, OutputStream& stream);

  asio::any_io_executor executor_;
  Scope& scope_;
  Notifier& changed_;
  Uplink& uplink_;
};

}  // namespace train
