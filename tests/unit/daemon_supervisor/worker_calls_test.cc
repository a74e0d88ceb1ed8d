// The supervisor passes calls on to its workers, and answers for those that cannot.
#include <gmock/gmock.h>

#include "lib/model/worker_call.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/worker_messages.h"
#include "tests/unit/daemon_supervisor/worker_link.h"

namespace train {
namespace {

class WorkerCallsTest : public WorkerLink {
 protected:
  void call(std::uint64_t request, std::vector<std::int32_t> ranks = {}) {
    supervisor_.send(
        CallWorkers{.request = request, .ranks = std::move(ranks), .name = "f", .argument = "[1]"});
  }
  WorkerAnswered answer() { return supervisor_.wait_for<WorkerAnswered>(); }
};

TEST_F(WorkerCallsTest, ACallAndItsAnswerArePassedOnOnce) {
  call(7);
  const auto heard = hear<CallWorkers>();
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->request, 7u);
  EXPECT_EQ(heard->name, "f");
  EXPECT_EQ(heard->argument, "[1]");

  ASSERT_TRUE(say(WorkerAnswered{.rank = 5, .request = 8, .result = "2"}));  // nobody asked
  ASSERT_TRUE(say(WorkerAnswered{.rank = 5, .request = 7, .result = "3"}));
  const WorkerAnswered first = answer();
  EXPECT_EQ(first.rank, 0);  // that of the connection
  EXPECT_EQ(first.request, 7u);
  EXPECT_EQ(first.result, "3");

  ASSERT_TRUE(say(WorkerAnswered{.request = 7, .result = "4"}));  // again
  call(9);
  ASSERT_TRUE(hear<CallWorkers>());
  ASSERT_TRUE(say(WorkerAnswered{.request = 9, .error = "no"}));
  EXPECT_EQ(answer().error, "no");
}

TEST_F(WorkerCallsTest, ItAnswersForRanksThatCannot) {
  call(1, {3});
  EXPECT_EQ(answer().error, "the node has no such rank");

  call(2);
  ASSERT_TRUE(hear<CallWorkers>());
  link_.reset();
  EXPECT_EQ(answer().error, "it has closed its connection");
}

TEST_F(WorkerCallsTest, ARankThatHasLeftItsLoopIsNotCalled) {
  call(1);
  ASSERT_TRUE(hear<CallWorkers>());
  ASSERT_TRUE(say(WorkerGoodbye{}));
  EXPECT_EQ(answer().error, "it has left its loop");
  call(2);
  EXPECT_EQ(answer().request, 2u);
}

TEST_F(WorkerCallsTest, AProgramThatJoinsLaterHearsOfEarlierCalls) {
  link_.reset();
  call(4, {0});
  knows_calls_ = true;
  ASSERT_FALSE(join_again());
  const auto heard = hear<CallWorkers>();
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->request, 4u);
}

TEST_F(WorkerCallsTest, AnOldSdkIsNotCalled) {
  knows_calls_ = false;
  ASSERT_FALSE(join_again());
  call(5);
  EXPECT_EQ(answer().error, "its program was built with an SDK that knows no such request");
}

TEST_F(WorkerCallsTest, OnlySoManyWait) {
  for (std::uint64_t request = 1; request <= kWaitingCallsMax; ++request) call(request);
  call(100);
  const WorkerAnswered refused = answer();
  EXPECT_EQ(refused.request, 100u);
  EXPECT_EQ(refused.error, "64 calls wait for it already");
}

TEST_F(WorkerCallsTest, AResultThatIsTooLongEndsTheConnection) {
  call(1);
  ASSERT_TRUE(hear<CallWorkers>());
  ASSERT_TRUE(
      say(WorkerAnswered{.request = 1, .result = std::string(kCallValueBytesMax + 1, '1')}));
  expect_ended_for("the result of a call is too long", "protocol");
}

}  // namespace
}  // namespace train
