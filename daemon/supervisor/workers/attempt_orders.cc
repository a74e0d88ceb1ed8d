#include "daemon/supervisor/workers/attempt_orders.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/model/gpu_share.h"

namespace train {
namespace {

constexpr std::int64_t kPortsMax = 16'384;  // of a node: Linux gives out 28,000

}  // namespace

Result<Unit> AttemptOrders::hold_ports() {
  if (prepare->bind_master) {
    TRY(HeldPort port, HeldPort::bind(prepare->bind_address));
    master_port.emplace(std::move(port));
  }
  const std::int64_t count =
      std::int64_t{std::max(prepare->ports_per_worker, 0)} * std::max(prepare->local_world_size, 0);
  if (count > kPortsMax)
    return Error{Errc::ResourceExhausted,
                 fmt::format("{} ports are asked for; a node holds at most {}", count, kPortsMax)};
  for (std::int64_t i = 0; i < count; ++i) {
    TRY(HeldPort port, HeldPort::bind(prepare->bind_address));
    worker_ports.push_back(std::move(port));
  }
  return Unit{};
}

const std::vector<std::string>& AttemptOrders::command_of(std::int32_t role) const {
  return role == 0 ? start->command
                   : start->other_roles.at(static_cast<std::size_t>(role) - 1).command;
}

const Resources& AttemptOrders::claim_of(std::int32_t role) const {
  return role == 0 ? prepare->per_worker
                   : prepare->other_roles.at(static_cast<std::size_t>(role) - 1).per_worker;
}

NodeEnvironment AttemptOrders::node_environment(const StartWorkers& start,
                                                std::int32_t role) const {
  NodeEnvironment node{start, attempt, worker_socket(), {}, claim_of(role).gpu};
  if (role > 0) node.role = &start.other_roles.at(static_cast<std::size_t>(role) - 1);
  if (prepare->other_roles.empty()) {
    node.gpus = prepare->gpus;
    return node;
  }
  // Each role has GPUs of its own: those that train the first ones.
  std::size_t first = 0;
  std::size_t count = gpus_for(prepare->per_worker.gpu, prepare->local_world_size);
  for (std::size_t i = 0; std::cmp_less(i, role); ++i) {
    first += std::exchange(
        count, gpus_for(prepare->other_roles[i].per_worker.gpu, prepare->other_roles[i].workers));
  }
  first = std::min(first, prepare->gpus.size());
  count = std::min(count, prepare->gpus.size() - first);
  const auto begin = prepare->gpus.begin() + static_cast<std::ptrdiff_t>(first);
  node.gpus.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
  return node;
}

std::int64_t AttemptOrders::workers() const {
  std::int64_t all = prepare->local_world_size;
  for (const RoleClaim& role : prepare->other_roles) all += role.workers;
  return all;
}

Result<Unit> check_roles(const StartWorkers& start, const std::optional<PrepareAttempt>& prepare) {
  const std::size_t roles =
      prepare ? std::min(start.other_roles.size(), prepare->other_roles.size()) : 0;
  for (const WorkerRanks& worker : start.workers) {
    if (worker.role == 0) continue;
    if (worker.role < 0 || std::cmp_greater(worker.role, roles))
      return Error{Errc::Protocol, fmt::format("rank {} has a role of which nothing is known: {}",
                                               worker.rank, worker.role)};
    if (start.other_roles[static_cast<std::size_t>(worker.role) - 1].command.empty())
      return Error{Errc::Protocol, fmt::format("the role of rank {} has no command", worker.rank)};
  }
  return Unit{};
}

std::vector<std::uint32_t> AttemptOrders::held_ports() const {
  std::vector<std::uint32_t> numbers;
  for (const HeldPort& port : worker_ports) numbers.push_back(port.port());
  return numbers;
}

}  // namespace train
