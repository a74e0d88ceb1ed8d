#include "daemon/supervisor/workers/worker_welcome.h"

#include <fmt/format.h>

#include <algorithm>

namespace train {

Result<Welcome> make_welcome(const WorkerHello& hello, const WelcomeInput& input) {
  if (input.plan == nullptr || hello.attempt != input.attempt.value) {
    return Error{Errc::Fenced,
                 fmt::format("rank {} of attempt {} does not belong to attempt {} on this node",
                             hello.rank, hello.attempt, input.attempt.value)};
  }
  if (hello.protocol_min > kProtocolMax || hello.protocol_max < kProtocolMin) {
    return Error{
        Errc::Protocol,
        fmt::format("the worker's SDK ({}) speaks protocol {} to {}, this traind ({}) {} to {}",
                    hello.build, hello.protocol_min, hello.protocol_max, input.build, kProtocolMin,
                    kProtocolMax),
        "build the worker against the SDK of this version, or upgrade traind"};
  }
  const StartWorkers& start = input.start;
  return Welcome{.protocol = std::min(hello.protocol_max, kProtocolMax),
                 .world_size = start.world_size,
                 .rank = hello.rank,
                 .local_rank = input.plan->local_rank,
                 .local_world_size = static_cast<std::int32_t>(start.workers.size()),
                 .node_rank = start.node_rank,
                 .node_count = start.node_count,
                 .attempt = input.attempt.value,
                 .run_id = start.run_id,
                 .run_name = start.run_name,
                 .run_dir = input.run_dir,
                 .staging_dir = input.staging_dir,
                 .config_json = start.config_json,
                 .metadata_json = start.metadata_json,
                 .datasets_json = start.datasets_json,
                 .master_addr = start.master_addr,
                 .master_port = start.master_port,
                 .master_listen_fd = hello.rank == 0 ? input.master_listen_fd : -1,
                 .collectives = start.collectives,
                 .collective_timeout_ms = start.collective_timeout_ms,
                 .restore_dir = start.restore_dir,
                 .restored_epoch = start.restored_epoch,
                 .env = input.env};
}

}  // namespace train
