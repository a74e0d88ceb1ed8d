// A copy of a checkpoint is complete or absent after every cut and every failure. Also tests what
// an export refuses.
#include "lib/storage/checkpoint_export.h"

#include <gtest/gtest.h>

#include "tests/fakes/store.h"

namespace train {
namespace {

using fakes::MemoryFileSystem;
using Paths = std::vector<std::string>;

const std::string kFolder = "/run/checkpoints";
const std::string kSource = kFolder + "/checkpoint_000001";
const std::string kTarget = "/copies/best";
const std::string kGathered = "/copies/.best.tmp";

/// Return a disk with one committed checkpoint and a folder for copies.
std::unique_ptr<MemoryFileSystem> disk_with_one() {
  auto disk = std::make_unique<MemoryFileSystem>();
  disk->put("/staging/model.pt", "the model");
  disk->put("/staging/rank-0000/rng.bin", "rng of 0");
  disk->put("/copies/", "");
  constexpr PendingCheckpoint kPending{Generation{1}, Attempt{0}, CheckpointSeq{1}};
  CheckpointStore store(*disk, kFolder);
  EXPECT_FALSE(store.open(Generation{1}).has_error());
  auto shard = write_shard(*disk, kFolder, kPending, Rank{0}, "/staging");
  EXPECT_FALSE(store
                   .commit({.pending = kPending,
                            .number = CheckpointNumber{1},
                            .world_size = 1,
                            .shards = {*shard},
                            .created = "2026-11-21T09:38:00.123456Z",
                            .metrics = {{"loss", 0.5}}},
                           [] { return Unit{}; })
                   .has_error());
  return disk;
}

/// Return what is wrong with a disk after a copy that may have been cut short, or "".
std::string violation(MemoryFileSystem& disk) {
  if (auto source = verify_checkpoint(disk, kSource); source.has_error())
    return "the original: " + source.error().describe();
  const auto entries = disk.list(kTarget);
  if (entries.has_error() || entries->empty()) return {};
  const auto copy = verify_checkpoint(disk, kTarget);
  return copy.has_error() ? "half there: " + copy.error().describe() : "";
}

TEST(Export, IsTheSameCheckpoint) {
  const auto disk = disk_with_one();
  const auto before = disk->tree("/run");
  std::uint64_t bytes = 0;

  const auto copied = export_checkpoint(*disk, kSource, *disk, kTarget, [&](std::uint64_t more) {
    bytes += more;
    return Result<Unit>(Unit{});
  });

  ASSERT_FALSE(copied.has_error()) << copied.error().describe();
  EXPECT_EQ(*verify_checkpoint(*disk, kTarget), *copied);
  EXPECT_EQ(bytes, copied->total_bytes());
  EXPECT_EQ(disk->get(kTarget + "/.manifest.json"), disk->get(kSource + "/.manifest.json"));
  EXPECT_EQ(disk->tree("/copies"),
            (Paths{"/copies/best/", "/copies/best/.manifest.json", "/copies/best/model.pt",
                   "/copies/best/rank-0000/", "/copies/best/rank-0000/rng.bin"}));
  EXPECT_EQ(disk->tree("/run"), before);
}

TEST(Export, CutAtAnyChangeLeavesItWholeOrNotThereAndCanBeCalledAgain) {
  constexpr std::uint64_t kPowerCuts = 40;
  for (const bool empty_folder : {false, true}) {
    bool over = false;
    for (std::uint64_t n = 1; !over; ++n) {
      for (const std::size_t bytes : {std::size_t{0}, std::size_t{3}, MemoryFileSystem::kWhole}) {
        const auto disk = disk_with_one();
        if (empty_folder) disk->put(kTarget + "/", "");
        disk->cut_power_at(n, bytes);
        (void)export_checkpoint(*disk, kSource, *disk, kTarget);
        over = !disk->power_lost();
        for (std::uint64_t seed = 0; seed < kPowerCuts; ++seed)
          ASSERT_EQ(violation(*disk->after_power_cut(seed)), "") << n << " " << seed;
        const auto killed = disk->after_kill();
        ASSERT_EQ(violation(*killed), "") << n;
        const auto again = pull_checkpoint(*killed, kSource, *killed, kTarget);
        ASSERT_FALSE(again.has_error()) << n << " " << again.error().describe();
        ASSERT_FALSE(verify_checkpoint(*killed, kTarget).has_error()) << n;
        ASSERT_TRUE(killed->list(kGathered).has_error()) << n;
      }
    }
  }
}

TEST(Export, ThatFailsLeavesNothing) {
  for (std::uint64_t n = 1;; ++n) {
    const auto disk = disk_with_one();
    const std::uint64_t before = disk->changes();
    disk->fail_at(n, EIO);
    const auto copied = export_checkpoint(*disk, kSource, *disk, kTarget);
    ASSERT_EQ(violation(*disk), "") << n;
    ASSERT_EQ(disk->syncs_after_failure(), 0) << n;
    ASSERT_TRUE(disk->list(kGathered).has_error()) << n;
    if (disk->changes() - before < n) return;
    const bool there = !is_gone(*disk, kTarget);
    ASSERT_EQ(copied.has_error(), !there || disk->trace().back() == "sync-folder /copies") << n;
  }
}

TEST(Export, OfAFlippedBitNamesTheFileAndLeavesNothing) {
  const auto disk = disk_with_one();
  disk->flip_bit(kSource + "/rank-0000/rng.bin", 5);

  const auto refused = export_checkpoint(*disk, kSource, *disk, kTarget);

  EXPECT_EQ(refused.error(),
            (Error{Errc::Corrupt, kSource + ": 'rank-0000/rng.bin': xxh3-128 is " +
                                      to_hex(digest_of(disk->get(kSource + "/rank-0000/rng.bin"))) +
                                      ", expected " + to_hex(digest_of("rng of 0"))}));
  EXPECT_EQ(disk->tree("/copies"), Paths{});
}

TEST(Export, DoesNotTouchWhatIsThere) {
  const auto disk = disk_with_one();
  disk->put("/copies/full/mine", "kept");
  disk->put("/copies/file", "kept");

  EXPECT_EQ(export_checkpoint(*disk, kSource, *disk, "/copies/full").error(),
            (Error{Errc::AlreadyExists, "the folder '/copies/full' is not empty",
                   "name a folder that does not exist yet, or is empty"}));
  EXPECT_EQ(export_checkpoint(*disk, kSource, *disk, "/copies/file").error(),
            (Error{Errc::AlreadyExists, "'/copies/file' exists and is not a directory",
                   "name a folder that does not exist yet, or is empty"}));
  EXPECT_EQ(disk->tree("/copies"), (Paths{"/copies/file", "/copies/full/", "/copies/full/mine"}));
}

TEST(Export, AFolderOfTheNameWhereItCopiesIsNotEmptiedUnlessAnExportLeftIt) {
  const auto disk = disk_with_one();
  disk->put(kGathered + "/thesis.tex", "kept");

  EXPECT_EQ(export_checkpoint(*disk, kSource, *disk, kTarget).error(),
            (Error{Errc::AlreadyExists,
                   "the files are first copied to '/copies/.best.tmp', which holds files that no "
                   "export has left",
                   "remove it, or name another folder"}));

  EXPECT_EQ(disk->get(kGathered + "/thesis.tex"), "kept");
}

TEST(Export, SaysHowMuchSpaceIsMissing) {
  const auto disk = disk_with_one();
  disk->set_space(10);

  EXPECT_EQ(
      export_checkpoint(*disk, kSource, *disk, kTarget).error(),
      (Error{Errc::NoSpace, "the checkpoint has 17 bytes, 10 are free in '/copies/.best.tmp'"}));
  EXPECT_EQ(disk->tree("/copies"), Paths{});
}

TEST(Export, IsNotDisturbedByAnother) {
  const auto disk = disk_with_one();
  bool asked = false;

  const auto copied =
      export_checkpoint(*disk, kSource, *disk, kTarget, [&](std::uint64_t) -> Result<Unit> {
        if (std::exchange(asked, true)) return Unit{};
        EXPECT_EQ(export_checkpoint(*disk, kSource, *disk, kTarget).error(),
                  (Error{Errc::AlreadyExists, "another process writes to '/copies/.best.tmp'",
                         "wait for it, or name another folder"}));
        return Unit{};
      });

  EXPECT_FALSE(copied.has_error());
  EXPECT_EQ(violation(*disk), "");
}

TEST(Export, OfACheckpointThatRetentionRemovesSaysSo) {
  const auto disk = disk_with_one();

  const auto gone =
      export_checkpoint(*disk, kSource, *disk, kTarget, [&](std::uint64_t) -> Result<Unit> {
        if (is_gone(*disk, kSource)) return Unit{};
        return CheckpointStore(*disk, kFolder).remove(CheckpointNumber{1});
      });

  EXPECT_EQ(gone.error(),
            (Error{Errc::NotFound,
                   "'" + kSource +
                       "' was removed while it was being copied: its run keeps only newer ones",
                   "export a newer one"}));
  EXPECT_EQ(disk->tree("/copies"), Paths{});
}

TEST(Export, EndsWithTheCallersError) {
  const auto disk = disk_with_one();

  const auto stopped = export_checkpoint(*disk, kSource, *disk, kTarget, [](std::uint64_t) {
    return Result<Unit>(Error{Errc::Cancelled, "enough"});
  });

  EXPECT_EQ(stopped.error(), (Error{Errc::Cancelled, "enough"}));
  EXPECT_EQ(disk->tree("/copies"), Paths{});
}

TEST(Pull, LeavesOutWhatIsThereAndWhole) {
  const auto disk = disk_with_one();

  EXPECT_EQ(*pull_checkpoint(*disk, kSource, *disk, kTarget), Pulled::Copied);
  const std::uint64_t changes = disk->changes();

  EXPECT_EQ(*pull_checkpoint(*disk, kSource, *disk, kTarget), Pulled::WasThere);
  EXPECT_EQ(disk->changes(), changes);
}

TEST(Pull, RefusesAnotherCheckpointAndOneThatIsNotWhole) {
  const auto disk = disk_with_one();
  ASSERT_FALSE(export_checkpoint(*disk, kSource, *disk, kTarget).has_error());
  disk->cut_file(kTarget + "/model.pt", 3);
  disk->put("/copies/other/.manifest.json", "of another run");

  EXPECT_EQ(pull_checkpoint(*disk, kSource, *disk, kTarget).error(),
            (Error{Errc::AlreadyExists, "/copies/best: 'model.pt': 3 bytes, expected 9",
                   "remove that copy, and pull again"}));
  EXPECT_EQ(pull_checkpoint(*disk, kSource, *disk, "/copies/other").error(),
            (Error{Errc::AlreadyExists, "'/copies/other' holds another checkpoint",
                   "pull into another folder"}));
}

TEST(Find, KnowsOneByItsNumber) {
  const auto disk = disk_with_one();
  const CheckpointStore store(*disk, kFolder);

  EXPECT_EQ(*store.find(CheckpointNumber{1})->manifest, *verify_checkpoint(*disk, kSource));
  EXPECT_EQ(store.find(CheckpointNumber{2}).error(),
            (Error{Errc::NotFound, "no checkpoint_000002 in '/run/checkpoints'"}));
}

TEST(Export, TakesWhatItsValidationFoundAlong) {
  const auto disk = disk_with_one();
  const ValidationRecord record{.checkpoint = CheckpointNumber{1}, .metrics = {{"acc", 0.5}}};
  ASSERT_TRUE(write_validation(*disk, kSource, record));

  ASSERT_TRUE(export_checkpoint(*disk, kSource, *disk, kTarget));

  const auto copied = read_validation(*disk, kTarget);
  ASSERT_TRUE(copied && *copied) << copied.error().describe();
  EXPECT_EQ(**copied, record);
}

TEST(Pull, BringsAValidationThatCameLater) {
  const auto disk = disk_with_one();
  ASSERT_TRUE(pull_checkpoint(*disk, kSource, *disk, kTarget));
  const ValidationRecord record{.checkpoint = CheckpointNumber{1}, .metrics = {{"acc", 0.5}}};
  ASSERT_TRUE(write_validation(*disk, kSource, record));

  const auto again = pull_checkpoint(*disk, kSource, *disk, kTarget);

  ASSERT_TRUE(again) << again.error().describe();
  EXPECT_EQ(*again, Pulled::WasThere);
  EXPECT_EQ(read_validation(*disk, kTarget).value(), record);
}

}  // namespace
}  // namespace train
