#include "daemon/supervisor/backends/backends.h"

namespace train {

Backends::Backends(const Parts& parts)
    : executor_(parts.executor),
      scope_(parts.scope),
      orders_(parts.orders),
      calls_(parts.executor, parts.attempt, parts.slots, parts.uplink),
      pmi_(parts.executor, parts.scope, parts.uplink, calls_),
      pmix_({parts.executor, parts.scope, parts.uplink, parts.orders, parts.confinement, calls_,
             parts.environment}),
      hooks_({parts.executor, parts.scope, parts.orders, parts.confinement, calls_,
              parts.environment}) {}

Task<Unit> Backends::start() {
  const StartWorkers& order = *orders_.start;
  if (order.backend.pmi == "pmi1" && !order.workers.empty())
    pmi_.begin(pmi_space_name(order.run.run_id, orders_.attempt.value),
               order.workers.front().world_size, order.node_sizes);
  CO_TRY_VOID(co_await pmix_.start());
  const bool has_rank_0 = !order.workers.empty() && order.workers.front().rank == 0;
  if (order.backend.name == "horovod" && has_rank_0 && !orders_.worker_ports.empty()) {
    CO_TRY(rendezvous_, open_rendezvous(executor_, orders_.prepare->bind_address,
                                        orders_.worker_ports.front().port()));
    scope_.spawn("rendezvous", rendezvous_->run());
  }
  co_return co_await hooks_.start();
}

asio::awaitable<void> Backends::shut_down() {
  pmi_.shut_down();
  auto ending_pmix = pmix_.shut_down();
  co_await std::move(ending_pmix);
  auto ending_hooks = hooks_.shut_down();
  co_await std::move(ending_hooks);
}

const std::map<std::string, std::string>& Backends::variables(Rank rank) const {
  const auto& of_pmix = pmix_.variables(rank);
  return of_pmix.empty() ? hooks_.variables(rank) : of_pmix;
}

Result<FileDescriptor> Backends::socket_for(Rank rank) {
  return pmi_.begun() ? pmi_.connect(rank) : FileDescriptor();
}

bool Backends::answered(const BackendCalls::Parts& result) {
  if (result->sequence <= kBackendCollectives) return false;
  calls_.answered(result);
  return true;
}

}  // namespace train
