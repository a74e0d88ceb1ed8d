#include "launcher/bundle/bundle_plan.h"

#include <gmock/gmock.h>

namespace train {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t kKiB = 1 << 10, kMiB = 1 << 20;

BundlePart whole(const std::string& path, std::uint64_t bytes) {
  return {.path = path, .bytes = bytes, .head = bytes, .tail = 0};
}

TEST(BundlePlan, TakesTextsOfTrainRunAndLeavesOutTheRest) {
  const BundlePlan plan = plan_bundle({{"attempts/000/cause.json", 10},
                                       {"attempts/000/output.times", 11},
                                       {"attempts/000/ranks/0003/core.12", 12},
                                       {"attempts/000/ranks/0003/core.12.txt", 13},
                                       {"attempts/000/ranks/0003/stdout.log", 14},
                                       {"attempts/000/ranks/0003/data.bin", 15},
                                       {"checkpoints/checkpoint_000001/.manifest.json", 16},
                                       {"checkpoints/checkpoint_000001/model.pt", 17},
                                       {"notes.txt", 18},
                                       {".owner", 19},
                                       {"spec.yaml", 20}},
                                      kMiB);

  EXPECT_THAT(plan.parts, ElementsAre(whole("spec.yaml", 20), whole("attempts/000/cause.json", 10),
                                      whole("attempts/000/ranks/0003/core.12.txt", 13),
                                      whole("checkpoints/checkpoint_000001/.manifest.json", 16),
                                      whole("attempts/000/ranks/0003/stdout.log", 14)));
  EXPECT_THAT(
      plan.left_out,
      ElementsAre(
          LeftOut{".owner", 19, "the run's key"},
          LeftOut{"attempts/000/output.times", 11, "of use only with all output"},
          LeftOut{"attempts/000/ranks/0003/core.12", 12,
                  "memory of a worker, which holds all its secrets"},
          LeftOut{"attempts/000/ranks/0003/data.bin", 15, "not known to be text of train-run"},
          LeftOut{"checkpoints/checkpoint_000001/model.pt", 17, "data of a checkpoint"},
          LeftOut{"notes.txt", 18, "not known to be text of train-run"}));
}

TEST(BundlePlan, TakesTheBeginningAndTheEndOfWhatNeedsMoreThanItsShare) {
  const BundlePlan plan = plan_bundle({{"attempts/000/ranks/0000/stdout.log", 10 * kMiB},
                                       {"attempts/000/ranks/0001/stdout.log", 100 * kKiB},
                                       {"attempts/000/ranks/0002/stdout.log", UINT64_MAX}},
                                      kMiB);

  const std::uint64_t share = (kMiB - 100 * kKiB) / 2;
  EXPECT_THAT(
      plan.parts,
      ElementsAre(
          BundlePart{"attempts/000/ranks/0000/stdout.log", 10 * kMiB, share / 2, share / 2},
          whole("attempts/000/ranks/0001/stdout.log", 100 * kKiB),
          BundlePart{"attempts/000/ranks/0002/stdout.log", UINT64_MAX, share / 2, share / 2}));
}

TEST(BundlePlan, TakesTheNewestSamples) {
  const BundlePlan plan =
      plan_bundle({{"samples.jsonl", 60 * kMiB}, {".samples.now.jsonl", 9}}, 64 * kMiB);

  EXPECT_THAT(plan.parts,
              ElementsAre(whole(".samples.now.jsonl", 9),
                          BundlePart{"samples.jsonl", 60 * kMiB, /*head=*/0, /*tail=*/4 * kMiB}));
  EXPECT_THAT(plan.left_out, IsEmpty());
}

TEST(BundlePlan, GivesANewerAttemptHalfOfTheRoomBeforeTheOlderOne) {
  const BundlePlan plan = plan_bundle({{"attempts/000/ranks/0000/stdout.log", 10 * kMiB},
                                       {"attempts/001/ranks/0000/stdout.log", 10 * kMiB}},
                                      4 * kMiB);

  EXPECT_THAT(plan.parts,
              ElementsAre(BundlePart{"attempts/001/ranks/0000/stdout.log", 10 * kMiB, kMiB, kMiB},
                          BundlePart{"attempts/000/ranks/0000/stdout.log", 10 * kMiB, kMiB, kMiB}));
}

TEST(BundlePlan, NeverTakesMoreThanItsRoomOrLetsOneKindDriveOutTheNext) {
  std::vector<BundleCandidate> files{{"events.jsonl", 100 * kMiB}, {"run.json", UINT64_MAX / 2}};
  for (int rank = 0; rank < 5'000; ++rank)
    files.push_back({"attempts/000/ranks/" + std::to_string(rank) + "/stdout.log", kMiB});

  const BundlePlan plan = plan_bundle(files, 8 * kMiB);

  std::uint64_t used = 0, output = 0;
  for (const BundlePart& part : plan.parts) {
    used += part.head + part.tail;
    output += part.path.starts_with("attempts/");
  }
  EXPECT_LE(used, 8 * kMiB);
  EXPECT_GE(used, 7 * kMiB);
  EXPECT_EQ(output, 4096u);  // of 512 bytes: no room for each of 5,000 ranks
  EXPECT_EQ(plan.left_out.size(), 5'002 - plan.parts.size());
  EXPECT_EQ(plan.left_out.front().why, "no room (--max-bytes)");
}

TEST(BundlePlan, EntersOnlyFoldersThatMayHoldSomethingForIt) {
  EXPECT_TRUE(is_bundled_folder("attempts"));
  EXPECT_TRUE(is_bundled_folder("attempts/000/ranks/0001"));
  EXPECT_TRUE(is_bundled_folder("checkpoints"));
  EXPECT_TRUE(is_bundled_folder("checkpoints/checkpoint_000012"));
  EXPECT_FALSE(is_bundled_folder("checkpoints/checkpoint_000012/rank-0001"));
  EXPECT_FALSE(is_bundled_folder("checkpoints/.tmp-1-0.1"));
  EXPECT_FALSE(is_bundled_folder("tb"));
}

}  // namespace
}  // namespace train
