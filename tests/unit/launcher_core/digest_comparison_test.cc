// What is said of nodes that would not run the same.
#include "launcher/core/digest_comparison.h"

#include <gtest/gtest.h>

#include "tests/unit/launcher_core/controller_fixture.h"

namespace train {
namespace {

NodeDigests digests(const std::string& program = "aa", const std::string& library = "bb") {
  return {.files = {{.name = "./train", .path = "/nfs/train", .digest = program},
                    {.name = "libfoo.so.1", .path = "/usr/lib/libfoo.so.1", .digest = library}},
          .missing = {},
          .driver = "550.54",
          .nccl = ""};
}
using Texts = std::vector<std::string>;

TEST(DigestComparison, SaysNothingOfNodesThatRunTheSame) {
  DigestComparison comparison;
  NodeDigests elsewhere = digests();
  elsewhere.files[1].path = "/opt/lib/libfoo.so.1";
  comparison.add(NodeId{0}, "n0", digests());
  comparison.add(NodeId{1}, "n1", elsewhere);

  EXPECT_EQ(comparison.finding().texts, Texts{});
}

TEST(DigestComparison, NamesThoseThatStandOutAndWhatDiffers) {
  DigestComparison comparison;
  NodeDigests other = digests("cc", "bb");
  other.files.push_back({.name = "libbar.so", .path = "/x", .digest = "dd"});
  other.driver = "535.2";
  comparison.add(NodeId{3}, "n3", other);  // the first that answers is not the usual one
  for (const int node : {2, 1, 0})
    comparison.add(NodeId{node}, "n" + std::to_string(node), digests());

  const auto finding = comparison.finding();

  EXPECT_EQ(finding.node, NodeId{3});
  EXPECT_EQ(finding.texts,
            Texts{"n3 would not run the same as n2: ./train is another one, libbar.so is only "
                  "there, NVIDIA's driver is 535.2, not 550.54"});
}

TEST(DigestComparison, OfTwoNodesTheFirstCounts) {
  DigestComparison comparison;
  NodeDigests other = digests();
  other.files.pop_back();
  other.nccl = "2.20.5";
  comparison.add(NodeId{1}, "n1", other);
  comparison.add(NodeId{0}, "n0", digests());

  EXPECT_EQ(comparison.finding().texts,
            Texts{"n1 would not run the same as n0: libfoo.so.1 is not there, NCCL is 2.20.5, not "
                  "none"});
}

TEST(DigestComparison, NamesMissingLibrariesAlsoWhereAllNodesLackThem) {
  DigestComparison comparison;
  NodeDigests lacking = digests();
  lacking.missing = {{.soname = "libgone.so.2", .needed_by = "./train"}};
  comparison.add(NodeId{0}, "n0", lacking);
  comparison.add(NodeId{1}, "n1", lacking);

  EXPECT_EQ(comparison.finding().texts,
            Texts{"n0, n1 do not have libgone.so.2, which ./train needs"});
}

// Otherwise a node with a slow file system would pass with any program.
TEST(DigestComparison, NamesNodesThatTellNothing) {
  DigestComparison comparison;
  comparison.add(NodeId{0}, "n0", digests());
  comparison.add(NodeId{2}, "n2", {});
  comparison.add(NodeId{1}, "n1", {});

  EXPECT_EQ(comparison.finding().node, NodeId{1});
  EXPECT_EQ(comparison.finding().texts,
            Texts{"n2, n1 did not tell what they would run: the program is not there, or its files "
                  "could not be read in time"});
}

TEST(DigestComparison, WhereNoNodeTellsAnythingOnlyRefuseSaysSo) {
  DigestComparison comparison;
  comparison.add(NodeId{0}, "n0", {});
  EXPECT_EQ(comparison.finding(DigestCheck::Refuse).texts, Texts{}) << "alone";

  comparison.add(NodeId{1}, "n1", {});

  EXPECT_EQ(comparison.finding(DigestCheck::Refuse).texts.size(), 1u);
  EXPECT_EQ(comparison.finding(DigestCheck::Warn).texts, Texts{});
}

TEST(DigestComparison, StaysShortWhateverNodesTell) {
  DigestComparison comparison;
  for (int node = 0; node < 1000; ++node) {
    NodeDigests some;
    for (int file = 0; file < 100; ++file)
      some.files.push_back({.name = std::to_string(file), .digest = std::to_string(node)});
    comparison.add(NodeId{node}, "n" + std::to_string(node), some);
  }

  const auto finding = comparison.finding();

  EXPECT_EQ(finding.texts.size(), 31u);  // of 32 kinds, the last of which holds most nodes
  EXPECT_EQ(finding.texts[0],
            "n0 would not run the same as n31: 0 is another one, 1 is another one, 10 is another "
            "one, 11 is another one, 12 is another one, 13 is another one, 94 more");
}

// ---- what the controller makes of it

struct Prepared : Driven {
  explicit Prepared(DigestCheck check) : Driven(spec_of(check)) {
    nodes();
    handle(AttemptPrepared{kFirst, kNodeA, 41000, digests()});
    last = handle(AttemptPrepared{kFirst, kNodeB, 0, digests("cc")});
  }
  static JobSpec spec_of(DigestCheck check) {
    JobSpec spec = two_workers();
    spec.run_config.check_digests = check;
    return spec;
  }
  Actions last;
};
const std::string kDiffers = "node-b would not run the same as node-a: ./train is another one";

TEST(CheckDigests, WarnSaysSoAndStarts) {
  const Prepared run(DigestCheck::Warn);

  EXPECT_EQ(only<Note>(run.last), std::vector<Note>({{NoteLevel::Warning, kDiffers}}));
  EXPECT_EQ(only<Start>(run.last).size(), 2u);
}

TEST(CheckDigests, RefuseStartsNothingAndNamesTheNode) {
  Prepared run(DigestCheck::Refuse);
  EXPECT_TRUE(only<Start>(run.last).empty());
  EXPECT_EQ(only<StopGroup>(run.last).size(), 2u);

  run.handle(NodeGroupGone{kFirst, kNodeA});
  const auto ended = only<AttemptEnded>(run.handle(NodeGroupGone{kFirst, kNodeB}));

  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].cause, kDiffers + " (run_config.check_digests: warn starts it all the same)");
  EXPECT_EQ(ended[0].root_node, "node-b");
  EXPECT_TRUE(ended[0].failed);
}

TEST(CheckDigests, OffComparesNothing) {
  const Prepared run(DigestCheck::Off);

  EXPECT_TRUE(only<Note>(run.last).empty());
  EXPECT_EQ(only<Start>(run.last).size(), 2u);
}

}  // namespace
}  // namespace train
