#include "daemon/supervisor/workers/attempt_orders.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace train {
namespace {

AttemptOrders asked_for(std::int32_t per_worker, std::int32_t workers, bool master) {
  AttemptOrders orders;
  orders.prepare = PrepareAttempt{.local_world_size = workers,
                                  .bind_master = master,
                                  .ports_per_worker = per_worker,
                                  .bind_address = "127.0.0.1"};
  return orders;
}

TEST(AttemptOrders, HoldAsManyPortsAsAskedFor) {
  AttemptOrders orders = asked_for(2, 3, true);

  ASSERT_TRUE(orders.hold_ports());

  const auto ports = orders.held_ports();
  EXPECT_EQ(ports.size(), 6u);
  std::set<std::uint32_t> all(ports.begin(), ports.end());
  all.insert(orders.master_port->port());
  EXPECT_EQ(all.size(), 7u);
  EXPECT_EQ(all.count(0), 0u);
}

TEST(AttemptOrders, HoldNoneUnlessAskedFor) {
  for (const auto& [per_worker, workers] :
       {std::pair(0, 3), std::pair(1, 0), std::pair(-1, 3), std::pair(2, -3)}) {
    AttemptOrders orders = asked_for(per_worker, workers, false);
    EXPECT_TRUE(orders.hold_ports());
    EXPECT_TRUE(orders.held_ports().empty());
    EXPECT_FALSE(orders.master_port.has_value());
  }
}

TEST(AttemptOrders, RefuseMorePortsThanANodeHas) {
  AttemptOrders orders = asked_for(1 << 30, 1 << 30, false);

  const auto held = orders.hold_ports();

  ASSERT_FALSE(held);
  EXPECT_EQ(held.error().code, Errc::ResourceExhausted);
  EXPECT_TRUE(orders.held_ports().empty());
}

}  // namespace
}  // namespace train
