#include "daemon/supervisor/workers/attempt_orders.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

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

std::vector<std::uint32_t> AttemptOrders::held_ports() const {
  std::vector<std::uint32_t> numbers;
  for (const HeldPort& port : worker_ports) numbers.push_back(port.port());
  return numbers;
}

}  // namespace train
