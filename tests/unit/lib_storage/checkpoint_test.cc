// Writer and store together, on the fake, one behaviour per test. crash_test.cc has the tests with
// crashes.
#include <gtest/gtest.h>

#include "lib/storage/checkpoint_store.h"
#include "lib/storage/staged_files.h"
#include "tests/fakes/store.h"

namespace train {
namespace {

using fakes::MemoryFileSystem;
using Paths = std::vector<std::string>;

constexpr PendingCheckpoint kPending{Generation{1}, Attempt{0}, CheckpointSeq{1}};
const std::string kFolder = "/run/checkpoints";
Result<Unit> yes() { return Unit{}; }

class Checkpoints : public ::testing::Test {
 protected:
  Checkpoints() {
    disk.put("/staging/0/model.pt", "the model");
    disk.put("/staging/0/rank-0000/rng.bin", "rng of 0");
    disk.put("/staging/0/.scratch", "left out");
    disk.put("/staging/1/model.pt", "the model");
    disk.put("/staging/1/rank-0001/rng.bin", "rng of 1");
    EXPECT_FALSE(store.open(Generation{1}).has_error());
  }

  Result<CheckpointShard> write(int rank, WriteShardOptions options = {},
                                std::stop_token stop = {}) {
    return write_shard(disk, kFolder, kPending, Rank{rank}, "/staging/" + std::to_string(rank),
                       options, stop);
  }
  CommitRequest request(std::uint64_t number, std::vector<CheckpointShard> shards) {
    return {.pending = kPending,
            .number = CheckpointNumber{number},
            .world_size = 2,
            .shards = std::move(shards),
            .created = "2026-11-21T09:38:00.123456Z",
            .metrics = {{"loss", 0.5}},
            .metadata = {{"data", 7}}};
  }
  void commit(std::uint64_t number) {
    for (int rank : {0, 1})
      disk.put("/staging/" + std::to_string(rank) + "/model.pt", "model " + std::to_string(number));
    auto first = write(0, {.move = false}), second = write(1, {.move = false});
    auto done = store.commit(request(number, {*second, *first}), yes);
    ASSERT_FALSE(done.has_error()) << done.error().describe();
  }

  MemoryFileSystem disk;
  CheckpointStore store{disk, kFolder};
};

TEST_F(Checkpoints, HoldTheFilesOfAllRanksOnce) {
  auto first = write(0), second = write(1);
  ASSERT_FALSE(first.has_error()) << first.error().describe();

  auto committed = store.commit(request(1, {*second, *first}), yes);

  ASSERT_FALSE(committed.has_error()) << committed.error().describe();
  EXPECT_EQ(disk.tree(kFolder), (Paths{"/run/checkpoints/checkpoint_000001/",
                                       "/run/checkpoints/checkpoint_000001/.manifest.json",
                                       "/run/checkpoints/checkpoint_000001/model.pt",
                                       "/run/checkpoints/checkpoint_000001/rank-0000/",
                                       "/run/checkpoints/checkpoint_000001/rank-0000/rng.bin",
                                       "/run/checkpoints/checkpoint_000001/rank-0001/",
                                       "/run/checkpoints/checkpoint_000001/rank-0001/rng.bin"}));
  EXPECT_EQ(disk.get("/run/checkpoints/checkpoint_000001/model.pt"), "the model");
  EXPECT_EQ(committed->files, (std::vector<ManifestFile>{
                                  {"model.pt", 9, digest_of("the model"), {Rank{0}, Rank{1}}},
                                  {"rank-0000/rng.bin", 8, digest_of("rng of 0"), {Rank{0}}},
                                  {"rank-0001/rng.bin", 8, digest_of("rng of 1"), {Rank{1}}}}));
  EXPECT_EQ(*store.verify(CheckpointNumber{1}), *committed);
  EXPECT_EQ(store.latest()->value().manifest, *committed);
  EXPECT_EQ(*store.next_number(), CheckpointNumber{2});
}

TEST_F(Checkpoints, AreCopiedInPiecesAcrossFileSystems) {
  disk.set_one_file_system(false);
  disk.put("/staging/0/big.bin", std::string(100'000, 'x'));

  auto shard = write(0, {.move = true, .buffer_bytes = 1000});

  ASSERT_FALSE(shard.has_error()) << shard.error().describe();
  EXPECT_EQ(shard->files[0],
            (CheckpointFile{"big.bin", 100'000, digest_of(std::string(100'000, 'x'))}));
  EXPECT_EQ(disk.get("/staging/0/big.bin").size(), 100'000U);
  EXPECT_EQ(disk.get("/run/checkpoints/.tmp-1-0.1/.rank-0000/big.bin"), std::string(100'000, 'x'));
}

TEST_F(Checkpoints, AreWaitedForOnceAllIsOnItsWayToTheDisk) {
  const std::uint64_t before = disk.changes();

  ASSERT_FALSE(write(0).has_error());

  const std::string pending = "/run/checkpoints/.tmp-1-0.1", shard = pending + "/.rank-0000";
  EXPECT_EQ(Paths(disk.trace().begin() + static_cast<std::ptrdiff_t>(before), disk.trace().end()),
            (Paths{"make-folder " + pending, "make-folder " + shard,
                   "rename /staging/0/model.pt " + shard + "/model.pt",
                   "make-folder " + shard + "/rank-0000",
                   "rename /staging/0/rank-0000/rng.bin " + shard + "/rank-0000/rng.bin",
                   "sync " + shard + "/model.pt", "sync " + shard + "/rank-0000/rng.bin",
                   "sync-folder " + shard + "/rank-0000", "sync-folder " + shard,
                   "sync-folder " + pending, "sync-folder /run/checkpoints"}));
}

TEST_F(Checkpoints, MayHaveMoreFilesThanAreOpenAtATime) {
  std::vector<CheckpointFile> files;
  for (int i = 100; i < 300; ++i) {
    const std::string name = std::to_string(i), bytes = "file " + name;
    disk.put("/staging/2/" + name, bytes);
    files.push_back({name, bytes.size(), digest_of(bytes)});
  }

  auto shard = write(2);

  EXPECT_EQ(shard->files, files);
  const auto after = disk.after_power_cut(0);
  EXPECT_EQ(after->get("/run/checkpoints/.tmp-1-0.1/.rank-0002/299"), "file 299");
}

TEST_F(Checkpoints, TakeTheDigestOfAFileThatWasDigestedAsItWasWritten) {
  const Digest said{1, 2};
  disk.put("/staging/2/a", "aaa");
  disk.put("/staging/2/deep/b c", "bbb");
  disk.put("/staging/2/not-said", "ccc");
  disk.put("/staging/2/other-size", "ddd");
  const std::string lines =
      staged_digest_line({"a", 3, said}) + staged_digest_line({"deep/b c", 3, said}) + "no line\n" +
      staged_digest_line({"other-size", 4, said}) + to_hex(said) + " 3 not-said";  // cut short
  disk.put("/staging/2/.trainrun-digests", lines);

  auto shard = write(2);

  ASSERT_FALSE(shard.has_error()) << shard.error().describe();
  EXPECT_EQ(shard->files, (std::vector<CheckpointFile>{{"a", 3, said},
                                                       {"deep/b c", 3, said},
                                                       {"not-said", 3, digest_of("ccc")},
                                                       {"other-size", 3, digest_of("ddd")}}));
  EXPECT_EQ(disk.after_power_cut(0)->get("/run/checkpoints/.tmp-1-0.1/.rank-0002/a"), "aaa");
}

TEST_F(Checkpoints, AreDigestedAnewWhereTheyAreCopied) {
  disk.put("/staging/0/.trainrun-digests", staged_digest_line({"model.pt", 9, Digest{1, 2}}));

  auto shard = write(0, {.move = false});

  EXPECT_EQ(shard->files[0], (CheckpointFile{"model.pt", 9, digest_of("the model")}));
}

TEST_F(Checkpoints, AreVerifiedFilesAtOnceAndTheFirstDamagedOneIsNamed) {
  for (int i = 100; i < 120; ++i)
    disk.put("/staging/2/" + std::to_string(i), std::string(200'000, 'x'));
  CommitRequest alone = request(1, {*write(2)});
  alone.shards[0].rank = Rank{0};
  alone.world_size = 1;
  ASSERT_FALSE(store.commit(alone, yes).has_error());
  const std::string folder = kFolder + "/checkpoint_000001";
  ASSERT_TRUE(verify_checkpoint(disk, folder));
  for (const char* damaged : {"/101", "/102", "/117"}) disk.flip_bit(folder + damaged, 7);

  for (int again = 0; again < 100; ++again) {
    const auto verified = verify_checkpoint(disk, folder);
    ASSERT_TRUE(verified.has_error());
    EXPECT_NE(verified.error().message.find("'101': xxh3-128 is "), std::string::npos)
        << verified.error().message;
  }
}

TEST_F(Checkpoints, MayBeEmptyOnSomeRanks) {
  disk.put("/staging/2/", "");
  auto shard = write_shard(disk, kFolder, kPending, Rank{0}, "/staging/2");

  EXPECT_EQ(shard->files, std::vector<CheckpointFile>{});
  CommitRequest alone = request(1, {*shard});
  alone.world_size = 1;
  EXPECT_FALSE(store.commit(alone, yes).has_error());
}

TEST_F(Checkpoints, RefuseDifferentBytesUnderOneName) {
  disk.put("/staging/1/model.pt", "another");
  auto first = write(0), second = write(1);

  const auto refused = store.commit(request(1, {*first, *second}), yes);

  EXPECT_EQ(
      refused.error(),
      (Error{Errc::InvalidArgument,
             "committing checkpoint_000001: ranks 0 and 1 wrote different bytes to 'model.pt' (9 "
             "bytes, xxh3-128 " +
                 to_hex(digest_of("the model")) + ", and 7 bytes, xxh3-128 " +
                 to_hex(digest_of("another")) + ")",
             "give the files of different ranks different names, such as rank-0003/state.bin"}));
  EXPECT_EQ(store.list()->size(), 0U);
}

TEST_F(Checkpoints, RefuseAFileThatIsAFolderElsewhere) {
  const Digest digest = digest_of("x");
  const auto merged = merge_shards({{Rank{0}, ".rank-0000", {{"state", 1, digest}}},
                                    {Rank{1}, ".rank-0001", {{"state/a", 1, digest}}}},
                                   2);
  EXPECT_EQ(merged.error().message, "'state' is a file of rank 0 and a folder of rank 1");
}

TEST_F(Checkpoints, NeedTheShardsOfAllRanks) {
  auto first = write(0);

  EXPECT_EQ(store.commit(request(1, {*first}), yes).error().message,
            "committing checkpoint_000001: no shard of rank 1 (world size 2)");
  EXPECT_EQ(merge_shards({*first, *first}, 2).error().message, "rank 0 brought two shards");
  EXPECT_EQ(merge_shards({{Rank{5}, ".rank-0005", {}}}, 2).error().message,
            "a shard is of rank 5, but the attempt has 2 workers");
}

TEST_F(Checkpoints, AreNotCommittedByAnOwnerThatWasReplaced) {
  auto first = write(0), second = write(1);

  auto refused = store.commit(request(1, {*first, *second}), [] {
    return Result<Unit>(Error{Errc::Fenced, "taken over"});
  });

  EXPECT_EQ(refused.error(), (Error{Errc::Fenced, "committing checkpoint_000001: taken over"}));
  EXPECT_EQ(store.list()->size(), 0U);
}

TEST_F(Checkpoints, NeverReplaceOneAnother) {
  commit(1);
  auto first = write(0), second = write(1);

  EXPECT_EQ(store.commit(request(1, {*first, *second}), yes).error().code, Errc::AlreadyExists);
  EXPECT_EQ(disk.get(kFolder + "/checkpoint_000001/model.pt"), "model 1");
}

TEST_F(Checkpoints, RefuseNamesThatHide) {
  disk.put("/staging/0/a\nb", "x");
  EXPECT_EQ(write(0).error().message, "file name 'a\\x0ab' holds a control character");
}

TEST_F(Checkpoints, StopOnRequestAndGiveFilesBack) {
  std::stop_source source;
  source.request_stop();

  EXPECT_EQ(write(0, {}, source.get_token()).error().code, Errc::Cancelled);
  EXPECT_EQ(disk.tree("/run/checkpoints/.tmp-1-0.1"), Paths{});
  EXPECT_EQ(disk.get("/staging/0/model.pt"), "the model");
}

TEST_F(Checkpoints, FailWithBytesNeededAndFreeOnAFullDisk) {
  commit(1);
  disk.set_space(5);
  disk.put("/staging/0/model.pt", "model 22");

  EXPECT_EQ(write(0, {.move = false}).error(),
            (Error{Errc::NoSpace,
                   "not writing '/run/checkpoints/.tmp-1-0.1': the checkpoint's shard needs 16 "
                   "bytes, 5 are free in "
                   "'/run/checkpoints/.tmp-1-0.1'",
                   "free some space, or lower checkpoint_config.num_to_keep"}));
  EXPECT_EQ(store.open_for_restore()->checkpoint->number, CheckpointNumber{1});
}

TEST_F(Checkpoints, SurviveAnyOneFailingOperation) {
  for (int error_number : {EIO, ENOSPC}) {
    for (bool move : {true, false}) {
      for (std::uint64_t n = 1;; ++n) {
        Checkpoints_SurviveAnyOneFailingOperation_Test fresh;
        fresh.commit(1);
        const std::uint64_t before = fresh.disk.changes();
        fresh.disk.fail_at(n, error_number);
        auto first = fresh.write(0, {.move = move});
        auto second = fresh.write(1, {.move = move});
        bool committed = false;
        if (!first.has_error() && !second.has_error())
          committed = !fresh.store.commit(fresh.request(2, {*first, *second}), yes).has_error();
        const bool reached = fresh.disk.changes() >= before + n;
        const std::string failed =
            reached ? fresh.disk.trace().at(before + n - 1) : "nothing failed";

        const auto after = fresh.disk.after_power_cut(n);
        CheckpointStore recovered(*after, kFolder);
        const auto choice = recovered.open_for_restore();
        ASSERT_TRUE(choice->checkpoint.has_value()) << failed;
        ASSERT_EQ(choice->warnings, Paths{}) << failed;
        if (committed) {
          ASSERT_EQ(choice->checkpoint->number, CheckpointNumber{2});
        }
        ASSERT_EQ(fresh.disk.syncs_after_failure(), 0);
        if (first.has_error()) {  // the rank's files are not lost: they can be written again
          ASSERT_FALSE(fresh.write(0, {.move = false}).has_error()) << failed;
        }
        if (!reached) break;
      }
    }
  }
}

TEST_F(Checkpoints, AShardForWhichNoFolderCanBeMadeIsAnErrorAtOnce) {
  disk.put("/staging/0/model.pt", "model");
  ASSERT_TRUE(write(0, {.move = false}));
  std::uint64_t at = 0;
  while (disk.trace().at(at).find("/.rank-0000") == std::string::npos) ++at;
  Checkpoints_AShardForWhichNoFolderCanBeMadeIsAnErrorAtOnce_Test fresh;
  fresh.disk.put("/staging/0/model.pt", "model");
  fresh.disk.fail_at(at - fresh.disk.changes() + 1, EIO);

  EXPECT_EQ(fresh.write(0, {.move = false}).error().code, Errc::Io) << disk.trace().at(at);
}

TEST_F(Checkpoints, AreCommittedByALaterLauncherWhereTheFirstDiedInTheMiddle) {
  auto first = write(0), second = write(1);
  const auto fenced = [] { return Result<Unit>(Error{Errc::Fenced, "it died here"}); };
  ASSERT_TRUE(store.commit(request(1, {*first, *second}), fenced).has_error());  // all is moved
  ASSERT_FALSE(disk.get(kFolder + "/" + pending_name(kPending) + "/model.pt").empty());

  auto committed = store.commit(request(1, {*first, *second}), yes);

  ASSERT_FALSE(committed.has_error()) << committed.error().describe();
  EXPECT_EQ(*store.verify(CheckpointNumber{1}), *committed);
}

TEST_F(Checkpoints, RewriteAFileWhoseSyncFailed) {
  disk.set_one_file_system(false);
  // Changes: make .tmp, .rank-0000, create, write model.pt, make rank-0000, create, write rng.bin,
  // sync model.pt.
  disk.fail_at(8, EIO);

  auto shard = write(0);

  ASSERT_FALSE(shard.has_error()) << shard.error().describe();
  EXPECT_EQ(disk.trace().at(disk.changes() - 1), "sync-folder /run/checkpoints");
  const auto after = disk.after_power_cut(0);
  EXPECT_EQ(after->get("/run/checkpoints/.tmp-1-0.1/.rank-0000/model.pt"), "the model");
  EXPECT_EQ(disk.syncs_after_failure(), 0);
}

TEST_F(Checkpoints, FallBackToTheOneBeforeAndNameTheFile) {
  commit(1);
  commit(2);
  commit(3);
  commit(4);
  disk.flip_bit(kFolder + "/checkpoint_000004/model.pt", 9);
  disk.cut_file(kFolder + "/checkpoint_000003/rank-0001/rng.bin", 3);
  ASSERT_FALSE(disk.remove_file(kFolder + "/checkpoint_000002/.manifest.json").has_error());

  const auto choice = store.open_for_restore();

  EXPECT_EQ(choice->checkpoint->number, CheckpointNumber{1});
  std::string flipped = "model 4";
  flipped[1] = static_cast<char>(flipped[1] ^ 2);
  EXPECT_EQ(choice->warnings,
            (Paths{"skipping checkpoint_000004, which is not intact: "
                   "/run/checkpoints/checkpoint_000004: 'model.pt': xxh3-128 is " +
                       to_hex(digest_of(flipped)) + ", expected " + to_hex(digest_of("model 4")),
                   "skipping checkpoint_000003, which is not intact: "
                   "/run/checkpoints/checkpoint_000003: 'rank-0001/rng.bin': 3 "
                   "bytes, expected 8",
                   "skipping checkpoint_000002, which is not intact: opening "
                   "'/run/checkpoints/checkpoint_000002/.manifest.json': No "
                   "such file or directory"}));
  EXPECT_EQ(store.latest()->value().number, CheckpointNumber{4});  // checks the structure only
}

TEST_F(Checkpoints, DoNotFallBackFromOneThatAnotherVersionWrote) {
  commit(1);
  commit(2);
  const std::string path = kFolder + "/checkpoint_000002/.manifest.json";
  std::string text = disk.get(path);
  text.resize(text.find(",\n\"digest\""));
  text.replace(text.find("\"version\":2"), 11, "\"version\":3");
  text += ",\n\"digest\":\"" + to_hex(digest_of(text)) + "\"}\n";
  disk.put(path, text);

  EXPECT_EQ(store.open_for_restore().error(),
            (Error{Errc::InvalidArgument,
                   "reading checkpoint_000002: " + path +
                       ": manifest: version 3, this program reads version 2",
                   "use the trainrun that wrote it, or a newer one"}));
}

TEST_F(Checkpoints, NoticeEveryFlippedBit) {
  commit(1);
  for (const char* file :
       {"model.pt", "rank-0000/rng.bin", "rank-0001/rng.bin", ".manifest.json"}) {
    const std::string path = kFolder + "/checkpoint_000001/" + file;
    for (std::uint64_t bit = 0; bit < disk.get(path).size() * 8; ++bit) {
      disk.flip_bit(path, bit);
      ASSERT_EQ(store.verify(CheckpointNumber{1}).error().code, Errc::Corrupt)
          << path << " bit " << bit;
      disk.flip_bit(path, bit);
    }
  }
  EXPECT_FALSE(store.verify(CheckpointNumber{1}).has_error());
}

TEST_F(Checkpoints, DoNotPassUnderAnotherNumber) {
  commit(1);
  ASSERT_FALSE(
      disk.rename(kFolder + "/checkpoint_000001", kFolder + "/checkpoint_000009").has_error());
  EXPECT_EQ(
      store.verify(CheckpointNumber{9}).error().message,
      "/run/checkpoints/checkpoint_000009: '.manifest.json': is the manifest of checkpoint_000001");
  EXPECT_EQ(store.open_for_restore()->checkpoint.has_value(), false);
}

TEST_F(Checkpoints, AreRemovedWithTheirName) {
  commit(1);
  commit(2);

  ASSERT_FALSE(store.remove(CheckpointNumber{1}).has_error());

  EXPECT_EQ(store.list()->size(), 1U);
  EXPECT_EQ(store.remove(CheckpointNumber{1}).error().code, Errc::NotFound);
  EXPECT_EQ(*store.next_number(), CheckpointNumber{3});
}

TEST_F(Checkpoints, OpeningClearsWhatOlderGenerationsLeft) {
  disk.put(kFolder + "/.trash-000003/model.pt", "x");
  disk.put(kFolder + "/.tmp-1-0.1/.rank-0000/model.pt", "x");
  disk.put(kFolder + "/.tmp-1-0.2/.rank-0000/model.pt", "x");
  disk.put(kFolder + "/.tmp-2-1.1/.rank-0000/model.pt", "x");
  disk.put(kFolder + "/.tmp-notes/mine.txt", "x");

  const auto discarded = store.open(Generation{2}, {{Generation{1}, Attempt{0}, CheckpointSeq{2}}});

  EXPECT_EQ(*discarded, (Paths{".tmp-1-0.1", ".trash-000003"}));
  EXPECT_EQ(disk.tree(kFolder),
            (Paths{"/run/checkpoints/.tmp-1-0.2/", "/run/checkpoints/.tmp-1-0.2/.rank-0000/",
                   "/run/checkpoints/.tmp-1-0.2/.rank-0000/model.pt",
                   "/run/checkpoints/.tmp-2-1.1/", "/run/checkpoints/.tmp-2-1.1/.rank-0000/",
                   "/run/checkpoints/.tmp-2-1.1/.rank-0000/model.pt",
                   "/run/checkpoints/.tmp-notes/", "/run/checkpoints/.tmp-notes/mine.txt"}));
}

TEST_F(Checkpoints, OpeningGoesOnWithoutWhatCannotBeRemoved) {
  disk.put(kFolder + "/.trash-000002/model.pt", "x");
  disk.put(kFolder + "/.trash-000003/model.pt", "x");
  disk.fail_at(1, EBUSY);

  const auto discarded = store.open(Generation{2});

  ASSERT_FALSE(discarded.has_error()) << discarded.error().describe();
  EXPECT_EQ(*discarded, Paths{".trash-000003"});
}

TEST_F(Checkpoints, OneWhoseNameIsNotOnDiskForSureIsTakenBack) {
  const std::uint64_t before = disk.changes();
  commit(1);
  disk.fail_at(disk.changes() - before, EIO);  // the sync of the folder, after the rename
  auto first = write(0, {.move = false}), second = write(1, {.move = false});
  EXPECT_TRUE(store.commit(request(2, {*second, *first}), yes).has_error());

  EXPECT_EQ(store.list()->size(), 1U);
  EXPECT_EQ(*store.next_number(), CheckpointNumber{2});
}

TEST_F(Checkpoints, WhatEndedAttemptsHandedOverGoesWhateverTheirLauncher) {
  disk.put(kFolder + "/.tmp-1-0.7/.rank-0000/model.pt", "x");
  disk.put(kFolder + "/.tmp-1-1.2/.rank-0000/model.pt", "x");
  disk.put(kFolder + "/.tmp-1-2.1/.rank-0000/model.pt", "x");
  disk.put(kFolder + "/.tmp-notes/mine.txt", "x");

  EXPECT_FALSE(store.discard_before(Attempt{2}).has_error());

  EXPECT_EQ(disk.tree(kFolder),
            (Paths{"/run/checkpoints/.tmp-1-2.1/", "/run/checkpoints/.tmp-1-2.1/.rank-0000/",
                   "/run/checkpoints/.tmp-1-2.1/.rank-0000/model.pt",
                   "/run/checkpoints/.tmp-notes/", "/run/checkpoints/.tmp-notes/mine.txt"}));
}

/// Shards with files on nodes' disks.
class OnNodes : public Checkpoints {
 protected:
  OnNodes() {
    std::vector<CheckpointShard> shards;
    for (int rank : {0, 1}) {
      const std::string text = "state of " + std::to_string(rank);
      shards.push_back({Rank{rank},
                        "data-1-0.1/" + shard_name(Rank{rank}),
                        {{"model.pt", 5, digest_of("model")},
                         {shard_name(Rank{rank}) + "/state", text.size(), digest_of(text)}},
                        {"n" + std::to_string(rank), "n2"}});
    }
    const auto committed = store.commit(request(1, shards), yes);
    EXPECT_FALSE(committed.has_error()) << committed.error().describe();
  }
  std::string folder = kFolder + "/checkpoint_000001";
};

TEST_F(OnNodes, ACheckpointIsItsManifest) {
  EXPECT_EQ(disk.list(folder)->size(), 1u);
  const auto listed = store.find(CheckpointNumber{1});
  ASSERT_FALSE(listed.has_error() || listed->manifest.has_error());
  ASSERT_EQ(listed->manifest->files.size(), 3u);
  const ManifestFile& model = listed->manifest->files[0];
  EXPECT_EQ(model.at, "data-1-0.1/rank-0000");  // from the lowest rank that brought it
  EXPECT_EQ(model.nodes, (std::vector<std::string>{"n0", "n2"}));
  EXPECT_EQ(model.ranks, (std::vector<Rank>{Rank{0}, Rank{1}}));
  EXPECT_EQ(listed->manifest->files[2].at, "data-1-0.1/rank-0001");
}

TEST_F(OnNodes, ItIsRestoredFromThereAndCannotBeReadHere) {
  const auto choice = store.open_for_restore();
  ASSERT_TRUE(choice && choice->checkpoint);
  EXPECT_EQ(choice->checkpoint->number, CheckpointNumber{1});
  EXPECT_TRUE(choice->warnings.empty());

  const auto verified = verify_checkpoint(disk, folder);
  ASSERT_TRUE(verified.has_error());
  EXPECT_EQ(verified.error().code, Errc::Unavailable);
  EXPECT_EQ(verified.error().message, "the files of " + folder + " are on the disks of n0, n1, n2");
}

TEST_F(OnNodes, ItIsAnOrdinaryOneOnceItsFilesHaveCome) {
  EXPECT_TRUE(keep_here(disk, folder).has_error()) << "nothing is here yet";
  disk.put(folder + "/model.pt", "model");
  for (int rank : {0, 1})
    disk.put(folder + "/" + shard_name(Rank{rank}) + "/state", "state of " + std::to_string(rank));

  ASSERT_FALSE(keep_here(disk, folder).has_error());

  const auto verified = verify_checkpoint(disk, folder);
  ASSERT_FALSE(verified.has_error()) << verified.error().describe();
  EXPECT_TRUE(verified->nodes().empty());
  EXPECT_EQ(verified->files[0].at, "");
}

TEST(ShardLocation, IsReadOnlyAsItIsWritten) {
  EXPECT_EQ(parse_shard_location("data-3-0.12/rank-0003"),
            (PendingCheckpoint{Generation{3}, Attempt{0}, CheckpointSeq{12}}));
  for (const char* other :
       {"data-3-0.12", "data-3-0.12/", "data-3-0.12/rank-3", "data-3-0.12/.rank-0003",
        "data-3-0.12/rank-0003/", "data-3-0.12/rank-0003/x", "data-3-0/rank-0003",
        ".tmp-3-0.12/rank-0003", "../rank-0003", "/rank-0003", "rank-0003"})
    EXPECT_EQ(parse_shard_location(other), std::nullopt) << other;
}

TEST(PendingName, IsReadOnlyAsItIsWritten) {
  const PendingCheckpoint pending{Generation{3}, Attempt{1}, CheckpointSeq{12}};
  EXPECT_EQ(pending_name(pending), ".tmp-3-1.12");
  EXPECT_EQ(parse_pending_name(".tmp-3-1.12"), pending);
  for (const char* name :
       {".tmp-3-1", ".tmp-3", ".tmp-", ".tmp-3-1.12x", ".tmp-03-1.12", "tmp-3-1.12", ".tmp-3.1-12"})
    EXPECT_EQ(parse_pending_name(name), std::nullopt) << name;
}

}  // namespace
}  // namespace train
