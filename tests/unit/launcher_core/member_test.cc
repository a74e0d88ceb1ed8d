#include "launcher/core/member.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Kind = MemberSource::Kind;

TEST(MemberSource, IsANameAFileOrSlurm) {
  EXPECT_EQ(parse_member_source("dns:mnist:7171")->dns, (DnsName{"mnist", 7171}));
  EXPECT_EQ(parse_member_source("dns:mnist")->dns, (DnsName{"mnist", 7070}));
  EXPECT_EQ(parse_member_source("hosts:/shared/a:b")->hosts_file, "/shared/a:b");
  EXPECT_EQ(parse_member_source("hosts:/shared/a:b")->kind, Kind::Hosts);
  EXPECT_EQ(parse_member_source("slurm")->kind, Kind::Slurm);
  EXPECT_EQ(parse_member_source("slurm:7171")->port, 7171);
}

TEST(MemberSource, SaysWhatIsWrong) {
  const auto mistake = [](std::string_view text) {
    const auto source = parse_member_source(text);
    return source ? "" : source.error().message;
  };
  EXPECT_EQ(mistake(""), "--member  is not known");
  EXPECT_EQ(mistake("mnist:7070"), "--member mnist:7070 is not known");
  EXPECT_EQ(mistake("dns"), "--member dns: it has no host");
  EXPECT_EQ(mistake("dns:-x"), "--member dns:-x: it has a host that is no name");
  EXPECT_EQ(mistake("dns:a:99999999999999999999"),
            "--member dns:a:99999999999999999999: it has no port from 1 to 65535");
  EXPECT_EQ(mistake("hosts:"), "--member hosts: names no file");
  EXPECT_EQ(mistake("slurm:0"), "--member slurm:0: it has no port from 1 to 65535");
  EXPECT_EQ(mistake("slurm:"), "--member slurm:: it has no port from 1 to 65535");
}

TEST(MemberIndex, IsThatOfKubernetesOrOfSlurm) {
  EXPECT_EQ(*member_index({{"JOB_COMPLETION_INDEX", "0"}}), 0);
  EXPECT_EQ(*member_index({{"JOB_COMPLETION_INDEX", "12"}, {"SLURM_PROCID", "1"}}), 12);
  EXPECT_EQ(*member_index({{"SLURM_PROCID", "3"}}), 3);
  EXPECT_EQ(*member_index({{"JOB_COMPLETION_INDEX", ""}, {"SLURM_PROCID", "3"}}), 3);
}

TEST(MemberIndex, IsANumber) {
  EXPECT_EQ(member_index({}).error().code, Errc::NotFound);
  for (const char* text : {"-1", "x", "1x", " 1", "2147483648", "9223372036854775808", "0x0"}) {
    const auto index = member_index({{"JOB_COMPLETION_INDEX", text}});
    ASSERT_FALSE(index) << text;
    EXPECT_EQ(index.error().code, Errc::InvalidArgument);
    EXPECT_THAT(index.error().message, HasSubstr("JOB_COMPLETION_INDEX is '"));
  }
}

MemberEnvironment task(const std::string& index = "1") {
  return {{"SLURM_STEP_NODELIST", "n[1-2],x7"},
          {"SLURM_PROCID", index},
          {"SLURM_STEP_NUM_TASKS", "3"},
          {"SLURM_JOB_ID", "4711"},
          {"SLURM_STEP_ID", "0"}};
}

TEST(SlurmMembers, AllHaveTheSamePortOnTheNodesOfTheStep) {
  const auto member = read_slurm_member(task(), 7171);
  ASSERT_TRUE(member);
  EXPECT_EQ(member->index, 1);
  EXPECT_THAT(member->nodes, ElementsAre("n1:7171", "n2:7171", "x7:7171"));

  const auto first = read_slurm_member(task("0"), 0), second = read_slurm_member(task("1"), 0);
  EXPECT_EQ(first->nodes, second->nodes);
  EXPECT_GE(split_address(first->nodes[0]).port, 20'000);
  auto other = task();
  other["SLURM_JOB_ID"] = "4712";
  EXPECT_NE(read_slurm_member(other, 0)->nodes, first->nodes);
}

TEST(SlurmMembers, AreOneTaskOnEachNode) {
  auto two_each = task();
  two_each["SLURM_STEP_NUM_TASKS"] = "6";
  EXPECT_EQ(read_slurm_member(two_each, 0).error().message,
            "--member slurm: the step has 6 tasks on 3 nodes");
  EXPECT_FALSE(read_slurm_member(task("3"), 0));
  for (const auto& [name, value] : task()) {
    auto without = task();
    without.erase(name);
    EXPECT_EQ(read_slurm_member(without, 0).error().code, Errc::NotFound) << name;
    auto hostile = task();
    hostile[name] = "n[1-9223372036854775808]";
    EXPECT_EQ(read_slurm_member(hostile, 0).error().code, Errc::InvalidArgument) << name;
  }
}

class PlaceOfThisMachine : public testing::Test {
 protected:
  std::optional<std::size_t> place(const std::vector<std::string>& nodes) {
    return place_of_this_machine(nodes, "n2.cluster", {"10.0.0.2", "fd00::2", "127.0.0.1"},
                                 [this](const std::string& name) {
                                   asked_.push_back(name);
                                   return names_[name];
                                 });
  }
  std::map<std::string, std::vector<std::string>> names_;
  std::vector<std::string> asked_;
};

TEST_F(PlaceOfThisMachine, IsWhereItsAddressOrItsNameIs) {
  EXPECT_EQ(place({"10.0.0.1:7070", "10.0.0.2:7070"}), 1u);
  EXPECT_EQ(place({"[fd00::2]:7070", "10.0.0.2:7070"}), 0u);
  EXPECT_EQ(place({"n1:7070", "n2:7070"}), 1u);
  EXPECT_EQ(place({"n2.elsewhere:7070", "n2.cluster:7070"}), 1u);
  EXPECT_EQ(place({"127.0.0.1:7070"}), 0u);
  EXPECT_THAT(asked_, ElementsAre());
}

TEST_F(PlaceOfThisMachine, MayBeUnderAnotherName) {
  names_ = {{"gpu-1", {"10.0.0.1"}}, {"gpu-2", {"10.0.0.9", "10.0.0.2"}}};
  EXPECT_EQ(place({"gpu-1:7070", "10.0.0.3:7070", "gpu-2:7070"}), 2u);
  EXPECT_THAT(asked_, ElementsAre("gpu-1", "gpu-2"));
  EXPECT_EQ(place({"gpu-1:7070", "10.0.0.3:7070"}), std::nullopt);
}

TEST(SplitAddress, TakesBracketsOff) {
  EXPECT_EQ(split_address("n1:7070"), (DnsName{"n1", 7070}));
  EXPECT_EQ(split_address("[fd00::1]:7171"), (DnsName{"fd00::1", 7171}));
}

}  // namespace
}  // namespace train
