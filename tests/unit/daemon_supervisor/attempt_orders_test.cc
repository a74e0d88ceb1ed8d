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

/// Two workers that share a GPU, two of another role with two each, and a role that has none.
AttemptOrders of_three_roles() {
  AttemptOrders orders;
  orders.prepare = PrepareAttempt{
      .local_world_size = 2,
      .per_worker = {.cpu = 1, .gpu = 0.5, .custom = {}},
      .other_roles = {{2, {.cpu = 1, .gpu = 2, .custom = {}}}, {3, {.cpu = 1, .custom = {}}}},
      .gpus = {"0", "1", "2", "3", "4"}};
  StartWorkers start;
  start.command = {"./train"};
  start.other_roles = {{"actor", {"./actor"}}, {"reader", {"./reader"}}};
  orders.start = start;
  return orders;
}

TEST(AttemptOrders, GiveEachRoleItsProgramAndGpus) {
  const AttemptOrders orders = of_three_roles();
  EXPECT_EQ(orders.workers(), 7);
  EXPECT_EQ(orders.command_of(0).front(), "./train");
  EXPECT_EQ(orders.command_of(2).front(), "./reader");
  EXPECT_EQ(orders.node_environment(*orders.start).gpus, (std::vector<std::string>{"0"}));
  EXPECT_EQ(orders.node_environment(*orders.start).gpus_per_worker, 0.5);
  const NodeEnvironment actor = orders.node_environment(*orders.start, 1);
  EXPECT_EQ(actor.gpus, (std::vector<std::string>{"1", "2", "3", "4"}));
  EXPECT_EQ(actor.role->name, "actor");
  EXPECT_TRUE(orders.node_environment(*orders.start, 2).gpus.empty());
}

TEST(AttemptOrders, FewerGpusThanClaimedAreNotOverrun) {
  AttemptOrders orders = of_three_roles();
  orders.prepare->gpus = {"0", "1"};
  EXPECT_EQ(orders.node_environment(*orders.start, 1).gpus, (std::vector<std::string>{"1"}));
  orders.prepare->gpus = {};
  EXPECT_TRUE(orders.node_environment(*orders.start, 2).gpus.empty());
}

TEST(AttemptOrders, RefuseARoleOfWhichNothingIsKnown) {
  const AttemptOrders orders = of_three_roles();
  for (const std::int32_t role : {-1, 3, 1 << 30}) {
    StartWorkers start = *orders.start;
    start.workers = {{.rank = 4, .role = role}};
    EXPECT_FALSE(check_roles(start, orders.prepare)) << role;
  }
  StartWorkers start = *orders.start;
  start.workers = {{.rank = 4, .role = 2}};
  EXPECT_TRUE(check_roles(start, orders.prepare));
  EXPECT_FALSE(check_roles(start, std::nullopt));
  start.other_roles[1].command.clear();
  EXPECT_FALSE(check_roles(start, orders.prepare));
}

}  // namespace
}  // namespace train
