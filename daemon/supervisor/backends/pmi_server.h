// Serves PMI-1 to the ranks of this node (backend: mpi): MPICH's processes find each other by it.
// Each rank has a socket of its own, which its process inherits as PMI_FD, so nobody else can speak
// for it. A barrier is a collective of the attempt; it carries what the ranks have put.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "daemon/supervisor/backends/backend_calls.h"
#include "daemon/supervisor/backends/mpi_init_watch.h"
#include "daemon/supervisor/backends/pmi_conversation.h"
#include "lib/base/file_descriptor.h"
#include "lib/net/scope.h"

namespace train {

class PmiServer {
 public:
  /// All arguments must outlive the flows in `scope`.
  PmiServer(asio::any_io_executor executor, Scope& scope, Uplink& uplink, BackendCalls& calls)
      : executor_(std::move(executor)),
        scope_(scope),
        uplink_(uplink),
        calls_(calls),
        inits_(uplink) {}

  /// Begin to serve a program of these nodes' sizes.
  void begin(const std::string& name, int world_size, const std::vector<std::int32_t>& node_sizes);
  bool begun() const { return space_.has_value(); }
  /// Serve the rank, and return the end of the socket for its process.
  Result<FileDescriptor> connect(Rank rank);

  /// All ranks have ended.
  void shut_down() { inits_.stop(); }

 private:
  asio::awaitable<void> serve(Rank rank, FileDescriptor socket);

  const asio::any_io_executor executor_;
  Scope& scope_;
  Uplink& uplink_;
  BackendCalls& calls_;
  MpiInitWatch inits_;
  std::optional<PmiSpace> space_;
  std::map<Rank, PmiConversation> ranks_;
};

}  // namespace train
