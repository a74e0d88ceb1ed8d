// Checkpoints in an object store: what is committed, refused, found again, skipped, removed and
// pulled.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "lib/storage/checkpoint_export.h"
#include "tests/unit/lib_storage/object_launcher.h"

namespace train {
namespace {

struct ObjectCheckpoint : testing::Test {
  ObjectCheckpoint() { EXPECT_TRUE(run.store.open(Generation{1})); }
  std::shared_ptr<MemoryObjects> objects = std::make_shared<MemoryObjects>();
  Launcher run{objects};
  const std::string one = "checkpoints/data-1-0.1/rank-0000/model.pt";
  const std::string two = "checkpoints/data-1-0.2/rank-0000/model.pt";
};

TEST_F(ObjectCheckpoint, IsWhatTheRanksHaveStaged) {
  ASSERT_TRUE(run.save(kOne, 1));

  EXPECT_EQ(objects->keys(),
            (std::vector<std::string>{"checkpoints/checkpoint_000001/.manifest.json", one,
                                      "checkpoints/data-1-0.1/rank-0000/rank-0000/rng.bin",
                                      "checkpoints/data-1-0.1/rank-0001/rank-0001/rng.bin"}));
  Launcher reader(objects);
  EXPECT_EQ(*read_small_file(reader.files, kFolder + "/checkpoint_000001/model.pt", 100),
            "model of data-1-0.1");
  EXPECT_EQ(reader.store.latest()->value().manifest.files[0].ranks,
            (std::vector<Rank>{Rank{0}, Rank{1}}));
}

TEST_F(ObjectCheckpoint, OfTwoLaunchersOneWinsItsNumber) {
  Launcher other(objects);
  ASSERT_TRUE(run.save(kOne, 1));
  const auto before = objects->get("checkpoints/checkpoint_000001/.manifest.json");

  const auto lost = other.save(kTwo, 1);

  EXPECT_EQ(lost.error().code, Errc::AlreadyExists);
  EXPECT_EQ(objects->get("checkpoints/checkpoint_000001/.manifest.json"), before);
  EXPECT_EQ(broken(objects, {1}), "");
}

TEST_F(ObjectCheckpoint, WithDifferentBytesOfTwoRanksIsRefused) {
  auto shards = *run.upload(kOne);
  shards[1].files[0].digest = digest_of("other bytes");

  const auto refused = run.store.commit(request_of(kOne, 1, shards), kYes);

  EXPECT_EQ(refused.error().code, Errc::InvalidArgument);
  EXPECT_NE(refused.error().message.find("ranks 0 and 1 wrote different bytes to 'model.pt'"),
            std::string::npos)
      << refused.error().message;
  ASSERT_TRUE(run.store.discard(kOne));
  EXPECT_EQ(objects->keys(), std::vector<std::string>{});
}

TEST_F(ObjectCheckpoint, OfWhichAnObjectIsMissingOrShortIsRefused) {
  const auto shards = *run.upload(kOne);
  objects->cut(one, 3);
  EXPECT_EQ(run.store.commit(request_of(kOne, 1, shards), kYes).error(),
            (Error{Errc::Corrupt,
                   "committing checkpoint_000001: 'model.pt' of rank 0 was uploaded with 19 bytes, "
                   "and has 3 there"}));
  objects->remove(one);
  EXPECT_EQ(run.store.commit(request_of(kOne, 1, shards), kYes).error(),
            (Error{Errc::Corrupt,
                   "committing checkpoint_000001: 'model.pt' of rank 0 was uploaded with 19 bytes, "
                   "and is not there"}));
  EXPECT_FALSE(objects->has("checkpoints/checkpoint_000001/.manifest.json"));
}

TEST_F(ObjectCheckpoint, IsUntouchedByAShardThatIsUploadedLate) {
  ASSERT_TRUE(run.save(kOne, 1));
  Launcher next(objects);
  ASSERT_TRUE(next.store.open(Generation{2}));
  ASSERT_TRUE(next.save({Generation{2}, Attempt{1}, CheckpointSeq{1}}, 3));

  ASSERT_TRUE(run.upload(kOne));  // again, unchanged
  ASSERT_TRUE(run.upload(kTwo));  // nobody will commit it

  EXPECT_EQ(broken(objects, {3}), "");
  ASSERT_TRUE(next.store.discard_before(Attempt{1}));
  EXPECT_EQ(objects->keys("checkpoints/data-1-0.2/"), std::vector<std::string>{});
  ASSERT_TRUE(Launcher(objects).store.open(Generation{3}));
  EXPECT_EQ(left_over(objects), "");
}

TEST_F(ObjectCheckpoint, OfAnAttemptThatLivesOnIsKeptAndCommitted) {
  const auto shards = *run.upload(kOne);
  Launcher next(objects);

  ASSERT_TRUE(next.store.open(Generation{2}, {kOne}));

  EXPECT_EQ(*next.store.pending(), std::vector<PendingCheckpoint>{kOne});
  ASSERT_TRUE(next.store.commit(request_of(kOne, 2, shards), kYes));
  ASSERT_TRUE(run.store.commit(request_of(kOne, 1, shards), kYes).has_error());  // was closed
  ASSERT_TRUE(run.store.discard(kOne));
  EXPECT_EQ(broken(objects, {2}), "");
}

TEST_F(ObjectCheckpoint, WhoseManifestCannotBeReadNowLosesNothing) {
  ASSERT_TRUE(run.save(kOne, 1));
  const auto before = objects->keys();
  for (std::uint64_t n = 1; n <= 8; ++n) {
    Launcher next(objects);
    next.handle->at(n, Fault::Fails);
    (void)next.store.open(Generation{2});
    ASSERT_EQ(broken(objects, {1}), "") << n;
  }
  objects->flip_bit("checkpoints/checkpoint_000001/.manifest.json", 99);
  ASSERT_TRUE(Launcher(objects).store.open(Generation{2}));
  for (const std::string& key : before) EXPECT_TRUE(objects->has(key)) << key;
}

TEST_F(ObjectCheckpoint, WhoseManifestIsDamagedKeepsItsDataWhenLaterOnesAreCommitted) {
  ASSERT_TRUE(run.save(kOne, 1));
  const auto before = objects->keys();
  objects->flip_bit(manifest_key(CheckpointNumber{1}), 99);
  Launcher next(objects);
  ASSERT_TRUE(next.store.open(Generation{2}));
  ASSERT_TRUE(next.upload({Generation{2}, Attempt{1}, CheckpointSeq{1}}));  // nobody commits it

  ASSERT_TRUE(next.save({Generation{2}, Attempt{2}, CheckpointSeq{1}}, 3));
  ASSERT_TRUE(next.store.discard(kOne));

  for (const std::string& key : before) EXPECT_TRUE(objects->has(key)) << key;
  EXPECT_EQ(objects->keys("checkpoints/data-2-1.1/"), std::vector<std::string>{});
}

TEST_F(ObjectCheckpoint, OfARunWhoseNextNumberCannotBeClosedIsNotTakenOver) {
  const auto shards = *run.upload(kOne);
  Launcher next(objects);
  next.handle->before_each([&](const std::string& operation) {
    if (operation.starts_with("put-new")) next.handle->at(1, Fault::Fails);
  });

  EXPECT_TRUE(next.store.open(Generation{2}).has_error());

  EXPECT_TRUE(run.store.commit(request_of(kOne, 1, shards), kYes));  // it is still the owner
}

/// Commit, so that the manifest of checkpoint 1 arrives but the launcher does not learn of it.
void commit_in_doubt(Launcher& run) {
  const auto shards = *run.upload(kOne);
  const std::string key = manifest_key(CheckpointNumber{1});
  bool first = true;
  run.handle->before_each([&](const std::string& operation) {
    if (first && operation.starts_with("put-new")) run.handle->at(1, Fault::AnswerIsLost);
    // Nor can it ask whether the manifest is there.
    if (first && operation == "get " + key) run.handle->at(1, Fault::Fails), first = false;
  });
  (void)run.store.commit(request_of(kOne, 1, shards), kYes);
  run.handle->before_each(nullptr);
}

TEST_F(ObjectCheckpoint, WhoseAnswerWasLostIsFoundCommittedAfterAll) {
  commit_in_doubt(run);

  EXPECT_TRUE(run.store.discard_before(Attempt{9}));

  EXPECT_EQ(broken(objects, {1}), "");
}

TEST_F(ObjectCheckpoint, WhoseAnswerWasLostKeepsItsDataIfItsManifestIsDamaged) {
  commit_in_doubt(run);
  const auto before = objects->keys("checkpoints/" + data_name(kOne));
  objects->flip_bit(manifest_key(CheckpointNumber{1}), 320);

  EXPECT_TRUE(run.store.discard_before(Attempt{9}));

  EXPECT_FALSE(before.empty());
  EXPECT_EQ(objects->keys("checkpoints/" + data_name(kOne)), before);
}

TEST_F(ObjectCheckpoint, ThatIsDamagedIsSkippedForTheOneBefore) {
  ASSERT_TRUE(run.save(kOne, 1));
  ASSERT_TRUE(run.save(kTwo, 2));
  const auto good = objects->copy();
  const std::string path = kFolder + "/checkpoint_000002: 'model.pt': ";
  const auto restored = [&](const std::shared_ptr<MemoryObjects>& from) {
    Launcher reader(from);
    const auto choice = reader.store.open_for_restore();
    EXPECT_EQ(choice->checkpoint->number, CheckpointNumber{1});
    return choice->warnings.at(0);
  };

  objects->cut(two, 3);
  EXPECT_EQ(restored(objects),
            "skipping checkpoint_000002, which is not intact: " + path + "3 bytes, expected 19");
  EXPECT_EQ(Launcher(objects).store.latest()->value().number, CheckpointNumber{1});
  objects->remove(two);
  EXPECT_EQ(restored(objects),
            "skipping checkpoint_000002, which is not intact: " + path + "missing");
  // The launcher that has read it before sees that, too.
  EXPECT_EQ(run.store.latest()->value().number, CheckpointNumber{1});

  good->flip_bit(two, 7);
  const std::string flipped = restored(good);
  EXPECT_TRUE(flipped.starts_with("skipping checkpoint_000002, which is not intact: " + path +
                                  "xxh3-128 is "))
      << flipped;
  EXPECT_EQ(Launcher(good).store.verify(CheckpointNumber{2}).error().code, Errc::Corrupt);
}

TEST_F(ObjectCheckpoint, ThatCannotBeReadNowIsNotSkipped) {
  ASSERT_TRUE(run.save(kOne, 1));
  ASSERT_TRUE(run.save(kTwo, 2));
  for (std::uint64_t n = 1;; ++n) {
    Launcher reader(objects);
    reader.handle->at(n, Fault::Fails);

    const auto choice = reader.store.open_for_restore();

    if (choice.has_error()) {
      EXPECT_EQ(choice.error().code, Errc::Unavailable) << n;
      continue;
    }
    EXPECT_EQ(choice->checkpoint->number, CheckpointNumber{2}) << n;
    EXPECT_EQ(choice->warnings, std::vector<std::string>{}) << n;
    if (reader.handle->operations() < n) return;
  }
}

TEST_F(ObjectCheckpoint, ThatIsRemovedMeanwhileIsLeftOut) {
  for (std::uint64_t n = 1;; ++n) {
    objects = std::make_shared<MemoryObjects>();
    Launcher owner(objects);
    ASSERT_TRUE(owner.store.open(Generation{1}) && owner.save(kOne, 1) && owner.save(kTwo, 2));
    objects->put("checkpoints/checkpoint_000001/.validation.json", "{}");
    Launcher reader(objects);
    bool met = false;
    reader.handle->before_each([&](const std::string&) {
      if (reader.handle->operations() + 1 != n || std::exchange(met, true)) return;
      ASSERT_TRUE(owner.store.remove(CheckpointNumber{1}));
    });
    const auto listed = reader.store.list();
    ASSERT_TRUE(listed) << listed.error().describe();
    for (const ListedCheckpoint& listed_one : *listed)
      ASSERT_TRUE(listed_one.manifest) << n << listed_one.manifest.error().describe();
    ASSERT_GE(listed->size(), 1u);
    if (!met) return;
  }
}

TEST_F(ObjectCheckpoint, IsPulledToAFolder) {
  ASSERT_TRUE(run.save(kOne, 1));
  MemoryFileSystem disk;
  disk.put("/copies/", "");
  Launcher reader(objects);
  const std::string source = kFolder + "/checkpoint_000001";

  EXPECT_EQ(*pull_checkpoint(reader.files, source, disk, "/copies/one"), Pulled::Copied);
  EXPECT_EQ(*pull_checkpoint(reader.files, source, disk, "/copies/one"), Pulled::WasThere);

  EXPECT_TRUE(verify_checkpoint(disk, "/copies/one"));
  EXPECT_EQ(disk.get("/copies/one/model.pt"), "model of data-1-0.1");
  EXPECT_EQ(disk.get("/copies/one/.manifest.json"),
            objects->get("checkpoints/checkpoint_000001/.manifest.json"));
  ASSERT_TRUE(run.store.remove(CheckpointNumber{1}));
  EXPECT_EQ(export_checkpoint(reader.files, source, disk, "/copies/two").error().code,
            Errc::NotFound);
}

TEST_F(ObjectCheckpoint, IsPulledWithWhatItsValidationFound) {
  ASSERT_TRUE(run.save(kOne, 1));
  MemoryFileSystem disk;
  disk.put("/copies/", "");
  Launcher reader(objects);
  const std::string source = kFolder + "/checkpoint_000001";
  ASSERT_EQ(*pull_checkpoint(reader.files, source, disk, "/copies/before"), Pulled::Copied);
  ValidationRecord record{.checkpoint = CheckpointNumber{1}, .metrics = {{"val_acc", 0.5}}};
  ASSERT_TRUE(write_validation(run.files, source, record));

  EXPECT_EQ(*pull_checkpoint(reader.files, source, disk, "/copies/before"), Pulled::WasThere);
  EXPECT_EQ(*pull_checkpoint(reader.files, source, disk, "/copies/after"), Pulled::Copied);

  for (const char* copy : {"/copies/before", "/copies/after"})
    EXPECT_EQ(disk.get(std::string(copy) + "/.validation.json"),
              objects->get("checkpoints/checkpoint_000001/.validation.json"))
        << copy;
}

TEST_F(ObjectCheckpoint, FilesRememberNoSizeOfWhatWasReplaced) {
  ASSERT_TRUE(write_small_file(run.files, kUrl + "/run.json", "first"));
  EXPECT_EQ(run.files.status(kUrl + "/run.json")->bytes, 5u);
  ASSERT_TRUE(write_small_file(run.files, kUrl + "/run.json", "the second"));
  EXPECT_EQ(run.files.status(kUrl + "/run.json")->bytes, 10u);
  ASSERT_TRUE(run.files.remove_file(kUrl + "/run.json"));
  EXPECT_EQ(run.files.status(kUrl + "/run.json").error().code, Errc::NotFound);
  objects->put("exit.json", "there");
  run.handle->at(1, Fault::Fails);
  EXPECT_EQ(run.files.status(kUrl + "/exit.json").error().code, Errc::Unavailable);
  run.handle->at(1, Fault::Fails);
  EXPECT_EQ(remove_tree(run.files, kUrl + "/checkpoints").error().code, Errc::Unavailable);
}

TEST(StoreEnvironment, IsWhatClientsOfStoresReadAndNothingElse) {
  const std::map<std::string, std::string> read{{"AWS_SECRET_ACCESS_KEY", "a"},
                                                {"GOOGLE_APPLICATION_CREDENTIALS", "b"},
                                                {"HADOOP_CONF_DIR", "c"},
                                                {"STORAGE_EMULATOR_HOST", "d"},
                                                {"GCE_METADATA_HOST", "e"},
                                                {"CLASSPATH", "f"},
                                                {"JAVA_HOME", "g"},
                                                {"KRB5CCNAME", "h"},
                                                {"ARROW_LIBHDFS_DIR", "i"},
                                                {"LIBHDFS_OPTS", "j"}};
  auto all = read;
  all.insert({{"HF_TOKEN", "k"}, {"PATH", "l"}, {"MY_AWS_KEY", "m"}, {"JAVA_HOME_2", "n"}});

  EXPECT_EQ(store_environment(all), read);
}

}  // namespace
}  // namespace train
