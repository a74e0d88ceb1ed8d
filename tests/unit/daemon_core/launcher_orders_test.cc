#include "daemon/core/launcher_orders.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace train {
namespace {

AttachRun lease() {
  AttachRun message;
  message.run_id = "r-1";
  message.run_name = "r";
  return message;
}
PrepareAttempt attempt() {
  PrepareAttempt message;
  message.local_world_size = 2;
  message.per_worker.cpu = 1;
  return message;
}

TEST(LauncherOrders, UsualOnesPass) {
  EXPECT_TRUE(check_order(lease()));
  EXPECT_TRUE(check_order(attempt()));
}

TEST(LauncherOrders, ALeaseWithoutBoundsIsRefused) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  const std::function<void(AttachRun&)> wrong[] = {
      [](AttachRun& m) { m.run_id.clear(); },
      [](AttachRun& m) { m.run_id.assign(1 << 20, 'x'); },
      [](AttachRun& m) { m.run_name.assign(1 << 20, 'x'); },
      [](AttachRun& m) { m.run_id.assign(201, 'x'); },
      [](AttachRun& m) { m.dead_after_ms = kMost; },
      [](AttachRun& m) { m.dead_after_ms = -1; },
      [](AttachRun& m) { m.heartbeat_ms = 0; },
      [](AttachRun& m) { m.orphan_timeout_ms = kMost; },
  };
  for (const auto& spoil : wrong) {
    AttachRun message = lease();
    spoil(message);
    EXPECT_EQ(check_order(message).error().code, Errc::InvalidArgument);
  }
}

// A run id becomes an argument, a folder and a part of names; a NUL would make it another run's.
TEST(LauncherOrders, ARunIdIsANameAndNothingElse) {
  using namespace std::string_literals;
  for (const std::string& id :
       {"vit-0123456789abcdef"s, "a"s, "-"s, "A_b.c-9"s, std::string(200, 'x')})
    EXPECT_TRUE(is_run_id(id)) << id;
  for (const std::string& id :
       {""s, "."s, ".."s, ".hidden"s, "a/b"s, "vit-mine\0-other"s, "a b"s, "a\n"s, "\xc3\xa9"s,
        "a\x1b[2J"s, "-e;id"s, std::string(201, 'x')}) {
    EXPECT_FALSE(is_run_id(id)) << id;
    AttachRun message = lease();
    message.run_id = id;
    EXPECT_EQ(check_order(message).error().code, Errc::InvalidArgument) << id;
  }
}

TEST(LauncherOrders, AUserIsAName) {
  AttachRun message = lease();
  message.user = "alice";
  EXPECT_TRUE(check_order(message));
  message.user.assign(1 << 20, 'x');
  EXPECT_EQ(check_order(message).error().code, Errc::InvalidArgument);
}

TEST(LauncherOrders, ANameHasAtMost1024Bytes) {
  AttachRun message = lease();
  message.run_name.assign(1024, 'x');
  EXPECT_TRUE(check_order(message));
  message.run_name += 'x';
  EXPECT_EQ(check_order(message).error().code, Errc::InvalidArgument);
}

TEST(LauncherOrders, WhatASupervisorHoldsHasBoundsToo) {
  SupervisorHello hello;
  hello.claimed = {.cpu = 4, .gpu = 1, .memory_bytes = 1 << 30, .custom = {{"tape", 1}}};
  hello.gpus = {"GPU-1234"};
  EXPECT_TRUE(check_order(hello));
  hello.gpus.clear();
  EXPECT_TRUE(check_order(hello));
  const std::function<void(SupervisorHello&)> wrong[] = {
      [](SupervisorHello& m) { m.claimed.cpu = std::nan(""); },
      [](SupervisorHello& m) { m.claimed.gpu = -1; },
      [](SupervisorHello& m) { m.claimed.memory_bytes = ~std::uint64_t{0}; },
      [](SupervisorHello& m) { m.claimed.custom[std::string(1025, 'x')] = 1; },
      [](SupervisorHello& m) { m.gpus.assign(1 << 20, "1"); },
      [](SupervisorHello& m) { m.gpus = {""}; },
      [](SupervisorHello& m) { m.gpus = {std::string(1025, 'x')}; },
  };
  for (const auto& change : wrong) {
    SupervisorHello bad = hello;
    change(bad);
    EXPECT_EQ(check_order(bad).error().code, Errc::InvalidArgument);
  }
}

TEST(LauncherOrders, WhatIsAtItsBoundsPasses) {
  PrepareAttempt message = attempt();
  message.local_world_size = 0;
  message.per_worker.cpu = 0;
  message.stop_grace_ms = 0;
  message.upload_timeout_ms = 0;
  message.output_bytes_max = 4096;
  message.per_worker.memory_bytes = std::uint64_t{1} << 60;
  message.per_worker.custom[std::string(1024, 'x')] = 0;
  for (int i = 1; i < 1000; ++i) message.per_worker.custom["r" + std::to_string(i)] = 0;
  EXPECT_TRUE(check_order(message));

  message.per_worker.custom["one more"] = 0;
  EXPECT_EQ(check_order(message).error().message,
            "the number of resources is 1001, but must be from 0 to 1000");
}

TEST(LauncherOrders, ALeaseIsSilentForADayAtMostAndOrphansWaitForAYear) {
  constexpr std::int64_t kDayMs = 24LL * 3600 * 1000, kYearMs = 366 * kDayMs;
  AttachRun message = lease();
  message.heartbeat_ms = message.dead_after_ms = kDayMs;
  message.orphan_timeout_ms = kYearMs;
  EXPECT_TRUE(check_order(message));

  for (std::int64_t AttachRun::*field :
       {&AttachRun::heartbeat_ms, &AttachRun::dead_after_ms, &AttachRun::orphan_timeout_ms}) {
    AttachRun more = message;
    ++(more.*field);
    EXPECT_EQ(check_order(more).error().code, Errc::InvalidArgument);
  }
}

TEST(LauncherOrders, AnAttemptWithoutBoundsIsRefused) {
  const std::function<void(PrepareAttempt&)> wrong[] = {
      [](PrepareAttempt& m) { m.local_world_size = -5; },
      [](PrepareAttempt& m) { m.local_world_size = std::numeric_limits<std::int32_t>::max(); },
      [](PrepareAttempt& m) { m.per_worker.cpu = std::nan(""); },
      [](PrepareAttempt& m) { m.per_worker.cpu = -1; },
      [](PrepareAttempt& m) { m.per_worker.gpu = std::numeric_limits<double>::infinity(); },
      [](PrepareAttempt& m) { m.per_worker.custom["x"] = -std::nan(""); },
      [](PrepareAttempt& m) { m.per_worker.custom["x"] = -0.5; },
      [](PrepareAttempt& m) { m.per_worker.custom[std::string(1025, 'x')] = 0; },
      [](PrepareAttempt& m) { m.per_worker.memory_bytes = (std::uint64_t{1} << 60) + 1; },
      [](PrepareAttempt& m) { m.ingest.cpu = std::nan(""); },
      [](PrepareAttempt& m) { m.ingest.memory_bytes = ~std::uint64_t{0}; },
      [](PrepareAttempt& m) { m.output_bytes_max = 4095; },
      [](PrepareAttempt& m) { m.code = std::string(4097, 'a'); },
      [](PrepareAttempt& m) { m.output_bytes_max = ~std::uint64_t{0}; },
      [](PrepareAttempt& m) { m.stop_grace_ms = std::numeric_limits<std::int64_t>::max(); },
      [](PrepareAttempt& m) { m.upload_timeout_ms = -1; },
      [](PrepareAttempt& m) { m.node_rank = -1; },
      [](PrepareAttempt& m) { m.replicas = -1; },
  };
  for (const auto& spoil : wrong) {
    PrepareAttempt message = attempt();
    spoil(message);
    EXPECT_EQ(check_order(message).error().code, Errc::InvalidArgument);
  }
  PrepareAttempt message = attempt();
  message.local_world_size = -5;
  EXPECT_EQ(check_order(message).error().message,
            "local_world_size is -5, but must be from 0 to 100000");
}

}  // namespace
}  // namespace train
