#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/supervisor/backends/pmi_conversation.h"

namespace train {
namespace {

using testing::HasSubstr;

TEST(PmiProcessMapping, RunsOfNodesWithEquallyManyRanks) {
  EXPECT_EQ(pmi_process_mapping({4}), "(vector,(0,1,4))");
  EXPECT_EQ(pmi_process_mapping({4, 4, 2}), "(vector,(0,2,4),(2,1,2))");
  EXPECT_EQ(pmi_process_mapping({1, 2, 1}), "(vector,(0,1,1),(1,1,2),(2,1,1))");
}

TEST(PmiProcessMapping, IsLeftOutWhereItIsTooLongForAValue) {
  std::vector<std::int32_t> sizes;
  for (int node = 0; node < 300; ++node) sizes.push_back(1 + node % 2);

  EXPECT_EQ(pmi_process_mapping(sizes), std::nullopt);
  EXPECT_EQ(PmiSpace("n", 450, sizes).find("PMI_process_mapping"), std::nullopt);
}

// MPICH names shared memory by it: no other attempt's on the node may have the same, also one that
// was killed.
TEST(PmiSpaceName, IsThatOfNoOtherAttempt) {
  const std::string id = "job-08daffb794e040f95841248e7fe2e9a0";
  EXPECT_EQ(pmi_space_name(id, 3), "trainrun-08daffb794e040f95841248e7fe2e9a0-3");
  EXPECT_LT(pmi_space_name(std::string(200, 'x') + id, 4294967295u).size(), kPmiNameBytesMax);
  EXPECT_EQ(pmi_space_name("r1", 0), "trainrun-r1-0");
}

class PmiConversationTest : public testing::Test {
 protected:
  std::string say(const std::string& text) {
    const auto answer = talk_.received(text);
    EXPECT_TRUE(answer) << answer.error().describe();
    return answer ? *answer : "";
  }

  PmiSpace space_{"trainrun-1-0", 4, {2, 2}};
  PmiConversation talk_{space_, 3};
};

// What MPICH 5.0.2 says, recorded.
TEST_F(PmiConversationTest, IsMpichsOwn) {
  EXPECT_FALSE(talk_.has_begun());
  EXPECT_EQ(say("cmd=init pmi_version=1 pmi_subversion=1\n"),
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
  EXPECT_TRUE(talk_.has_begun());
  EXPECT_EQ(say("cmd=get_maxes\n"),
            "cmd=maxes rc=0 kvsname_max=64 keylen_max=64 vallen_max=1024\n");
  EXPECT_EQ(say("cmd=get_appnum\n"), "cmd=appnum rc=0 appnum=0\n");
  EXPECT_EQ(say("cmd=get_my_kvsname\n"), "cmd=my_kvsname rc=0 kvsname=trainrun-1-0\n");
  EXPECT_EQ(say("cmd=get kvsname=trainrun key=PMI_process_mapping\n"),
            "cmd=get_result rc=0 msg=success value=(vector,(0,2,2))\n");
  EXPECT_EQ(say("cmd=get_universe_size\n"), "cmd=universe_size rc=0 size=4\n");
  EXPECT_EQ(say("cmd=put kvsname=trainrun key=-bcast-1-3 value=a=b#c$\n"),
            "cmd=put_result rc=0 msg=success\n");

  EXPECT_EQ(say("cmd=barrier_in\n"), "");
  ASSERT_TRUE(talk_.at_barrier());
  EXPECT_EQ(talk_.put(), "-bcast-1-3 a=b#c$\n");
  EXPECT_EQ(say("cmd=get key=other\n"), "") << "answered once the barrier is over";
  ASSERT_TRUE(space_.merge(1, {"", "other 7\n", "", talk_.put()}));
  EXPECT_EQ(*talk_.end_barrier(Unit{}),
            "cmd=barrier_out rc=0\ncmd=get_result rc=0 msg=success value=7\n");

  EXPECT_FALSE(talk_.at_barrier());
  EXPECT_EQ(talk_.put(), "");
  EXPECT_EQ(say("cmd=get kvsname=trainrun key=-bcast-1-3\n"),
            "cmd=get_result rc=0 msg=success value=a=b#c$\n");
  EXPECT_EQ(say("cmd=finalize\n"), "cmd=finalize_ack rc=0\n");
}

TEST_F(PmiConversationTest, TakesLinesInPieces) {
  EXPECT_EQ(say("cmd=get_app"), "");
  EXPECT_EQ(say("num\ncmd=get_"), "cmd=appnum rc=0 appnum=0\n");
  EXPECT_EQ(say("appnum\n"), "cmd=appnum rc=0 appnum=0\n");
}

TEST_F(PmiConversationTest, ABarrierThatFailsSaysSo) {
  say("cmd=barrier_in\n");

  EXPECT_EQ(*talk_.end_barrier(Error{Errc::Unavailable, "rank 1 has ended"}),
            "cmd=barrier_out rc=-1\n");
}

TEST_F(PmiConversationTest, RefusesWhatItDoesNotOffer) {
  EXPECT_EQ(say("cmd=init pmi_version=2 pmi_subversion=0\n"),
            "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1\n");
  EXPECT_EQ(say("mcmd=spawn\nnprocs=2\nexecname=evil\ncmd=put key=a value=b\nendcmd\n"),
            "cmd=spawn_result rc=-1 msg=not_supported\n");
  EXPECT_EQ(talk_.put(), "");
  EXPECT_THAT(say("cmd=publish_name service=a port=b\n"), HasSubstr("rc=-1"));
  EXPECT_THAT(say("cmd=lookup_name service=a\n"), HasSubstr("rc=-1"));
  EXPECT_THAT(say("cmd=unpublish_name service=a\n"), HasSubstr("rc=-1"));
  EXPECT_EQ(say("cmd=get key=no_such\n"), "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
  EXPECT_EQ(say("cmd=abort exitcode=3\n"), "");
  for (const char* nonsense : {"\n", "cmd\n", "cmd=\n", "= = =\n", "cmdx=init\n"})
    EXPECT_EQ(say(nonsense), "cmd=unknown_cmd rc=-1 msg=not_supported\n") << nonsense;
}

TEST_F(PmiConversationTest, RefusesKeysAndValuesThatAreTooLong) {
  const auto put = [&](std::size_t key, std::size_t value) {
    return say("cmd=put key=" + std::string(key, 'k') + " value=" + std::string(value, 'v') + "\n");
  };
  EXPECT_THAT(put(63, 1023), HasSubstr("rc=0"));
  EXPECT_THAT(put(64, 1), HasSubstr("rc=-1"));
  EXPECT_THAT(put(1, 1024), HasSubstr("rc=-1"));
  EXPECT_THAT(put(0, 1), HasSubstr("rc=-1"));
  const std::size_t before = talk_.put().size();
  for (int i = 0; i < 100; ++i) put(63, 1023);
  EXPECT_GT(talk_.put().size(), before);
  EXPECT_LE(talk_.put().size(), kPmiPutBytesMax);
  EXPECT_THAT(put(63, 1023), HasSubstr("rc=-1"));
}

TEST_F(PmiConversationTest, EndsWithAProcessThatFloodsIt) {
  EXPECT_FALSE(talk_.received(std::string(4097, 'x')));
  PmiConversation waiting(space_, 0);
  ASSERT_TRUE(waiting.received("cmd=barrier_in\n"));
  ASSERT_TRUE(waiting.received(std::string(60'000, '\n')));
  EXPECT_FALSE(waiting.received(std::string(6'000, '\n')));
}

TEST(PmiSpaceTest, TakesABarrierOnceAndWhateverAPartHolds) {
  PmiSpace space("n", 2, {2});
  ASSERT_TRUE(space.merge(1, {"a 1\nno_value\n\n b\nc d e", "a 2\n"}));
  ASSERT_TRUE(space.merge(1, {"a 3\n"}));

  EXPECT_EQ(space.find("a"), "2");
  EXPECT_EQ(space.find("c"), "d e");
  EXPECT_EQ(space.find("no_value"), std::nullopt);
  EXPECT_EQ(space.find("b"), std::nullopt);
}

TEST(PmiSpaceTest, EndsBeforeItsMemoryDoes) {
  PmiSpace space("n", 1, {1});
  const std::string part = "k " + std::string(1u << 20, 'v') + "\n";
  std::uint64_t barrier = 0;
  while (space.merge(++barrier, {part}) && barrier < 1000) {
  }
  EXPECT_EQ(barrier, 64u);
}

}  // namespace
}  // namespace train
