#include "daemon/supervisor/workers/worker_welcome.h"

#include <gtest/gtest.h>

namespace train {
namespace {

class WorkerWelcomeTest : public ::testing::Test {
 protected:
  Result<Welcome> welcome(const WorkerHello& hello, bool here = true) const {
    return make_welcome(hello, {.run = run_,
                                .ranks = here ? &ranks_ : nullptr,
                                .attempt = Attempt{2},
                                .run_dir = "/runs/vit",
                                .staging_dir = "/runs/vit/staging",
                                .build = "1.4.0"});
  }
  static WorkerHello hello(std::uint32_t protocol_min, std::uint32_t protocol_max) {
    WorkerHello hello;
    hello.protocol_min = protocol_min;
    hello.protocol_max = protocol_max;
    hello.build = "1.3.0";
    hello.attempt = 2;
    return hello;
  }

  JobContext run_;
  WorkerRanks ranks_;
};

TEST_F(WorkerWelcomeTest, ChoosesTheHighestCommonVersion) {
  const auto newer = welcome(hello(kProtocolMin, kProtocolMax + 5));
  ASSERT_TRUE(newer);
  EXPECT_EQ(newer->protocol, kProtocolMax);
  const auto older = welcome(hello(kProtocolMin, kProtocolMin));
  ASSERT_TRUE(older);
  EXPECT_EQ(older->protocol, kProtocolMin);
}

TEST_F(WorkerWelcomeTest, RefusesVersionsWithoutOverlapWithBothBuildsAndWhatToDo) {
  const auto refused = welcome(hello(kProtocolMax + 1, kProtocolMax + 2));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::Protocol);
  EXPECT_TRUE(refused.error().message.starts_with("the worker's SDK (1.3.0) speaks protocol "))
      << refused.error().message;
  EXPECT_NE(refused.error().message.find("this traind (1.4.0) "), std::string::npos);
  EXPECT_EQ(refused.error().hint,
            "build the worker against the SDK of this version, or upgrade traind");
}

TEST_F(WorkerWelcomeTest, RefusesAnotherAttemptAndARankThatIsNotHere) {
  WorkerHello late = hello(kProtocolMin, kProtocolMax);
  late.attempt = 1;
  const auto other_attempt = welcome(late);
  ASSERT_FALSE(other_attempt);
  EXPECT_EQ(other_attempt.error().code, Errc::Fenced);
  const auto other_node = welcome(hello(kProtocolMin, kProtocolMax), false);
  ASSERT_FALSE(other_node);
  EXPECT_EQ(other_node.error().code, Errc::Fenced);
}

}  // namespace
}  // namespace train
