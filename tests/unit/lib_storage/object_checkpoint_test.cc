// Checkpoints in an object store with every cut, every lost answer, and two launchers in any order:
// acknowledged ones stay intact, nothing listed is broken, and nothing is left behind. Mutants then
// test the checker.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <random>
#include <set>

#include "lib/storage/checkpoint_export.h"
#include "lib/storage/object_checkpoint_store.h"
#include "tests/fakes/object_store.h"
#include "tests/fakes/store.h"
#include "tests/unit/lib_storage/turns.h"

namespace train {
namespace {

using fakes::Fault;
using fakes::MemoryFileSystem;
using fakes::MemoryObjects;
using fakes::MemoryObjectStore;

const std::string kUrl = "s3://bucket/run";
const std::string kFolder = kUrl + "/checkpoints";

constexpr auto kYes = [] { return Result<Unit>(Unit{}); };

/// How a launcher commits and removes: the right way, and wrong ones.
struct Protocol {
  std::function<Result<Unit>(ObjectCheckpointStore&, ObjectStore&, const CommitRequest&,
                             const std::function<Result<Unit>()>&)>
      commit = [](auto& store, auto&, const auto& request, const auto& may) -> Result<Unit> {
    TRY_VOID(store.commit(request, may));
    return Unit{};
  };
  std::function<Result<Unit>(ObjectCheckpointStore&, ObjectStore&, CheckpointNumber)> remove =
      [](auto& store, auto&, CheckpointNumber number) { return store.remove(number); };
};

/// The folder in which a rank has staged its files for a checkpoint.
std::string staged_folder(const PendingCheckpoint& pending, int rank) {
  return fmt::format("/staging/{}/{}", data_name(pending), rank);
}
void stage(MemoryFileSystem& disk, const PendingCheckpoint& pending) {
  for (const int rank : {0, 1}) {
    const std::string folder = staged_folder(pending, rank);
    disk.put(folder + "/model.pt", "model of " + data_name(pending));
    disk.put(fmt::format("{}/rank-000{}/rng.bin", folder, rank), fmt::format("rng of {}", rank));
  }
}
CommitRequest request_of(const PendingCheckpoint& pending, std::uint64_t number,
                         std::vector<CheckpointShard> shards) {
  return {.pending = pending,
          .number = CheckpointNumber{number},
          .world_size = 2,
          .shards = std::move(shards),
          .created = "2026-11-21T09:38:00.123456Z",
          .metrics = {{"loss", 0.5}},
          .metadata = {}};
}

/// One launcher and its nodes.
class Launcher {
 public:
  Launcher(std::shared_ptr<MemoryObjects> objects, Protocol protocol = {})
      : handle(std::make_shared<MemoryObjectStore>(objects)),
        files(handle, kUrl),
        store(files, kUrl),
        protocol_(std::move(protocol)) {}

  Result<std::vector<CheckpointShard>> upload(const PendingCheckpoint& pending) {
    MemoryFileSystem disk;
    stage(disk, pending);
    std::vector<CheckpointShard> shards;
    for (const int rank : {0, 1}) {
      TRY(auto shard,
          upload_shard(disk, *handle, pending, Rank{rank}, staged_folder(pending, rank)));
      shards.push_back(std::move(shard));
    }
    return shards;
  }

  Result<Unit> save(const PendingCheckpoint& pending, std::uint64_t number,
                    const std::function<Result<Unit>()>& may_commit = kYes) {
    TRY(auto shards, upload(pending));
    auto done = protocol_.commit(store, *handle, request_of(pending, number, shards), may_commit);
    if (done.has_error()) {
      (void)store.discard(pending);
      return done;
    }
    acknowledged.insert(number);
    (void)store.discard_before(pending.attempt);
    if (number < 3) return Unit{};
    acknowledged.erase(number - 2);
    auto removed = protocol_.remove(store, *handle, CheckpointNumber{number - 2});
    if (removed.has_error() && removed.error().code == Errc::NotFound) return Unit{};
    return removed;
  }

  std::shared_ptr<MemoryObjectStore> handle;
  ObjectFiles files;
  ObjectCheckpointStore store;
  std::set<std::uint64_t> acknowledged;  // and not asked to be removed

 private:
  Protocol protocol_;
};

/// Save one checkpoint after the other, in two attempts.
void work(Launcher& launcher, Generation generation, std::uint64_t first,
          const std::function<Result<Unit>()>& may_commit = kYes) {
  for (std::uint64_t n = 0; n < 5; ++n) {
    const PendingCheckpoint pending{generation, Attempt{static_cast<std::uint32_t>(n / 3)},
                                    CheckpointSeq{n}};
    (void)launcher.save(pending, first + n, may_commit);
    if (launcher.handle->ended()) return;
  }
}

/// Return what a reader finds wrong, or "".
std::string broken(const std::shared_ptr<MemoryObjects>& objects,
                   const std::set<std::uint64_t>& acknowledged) {
  Launcher reader(objects);
  const auto listed = reader.store.list();
  if (listed.has_error()) return "cannot list: " + listed.error().describe();
  std::set<std::uint64_t> whole;
  for (const ListedCheckpoint& one : *listed) {
    if (one.manifest.has_error())
      return fmt::format("{} is broken: {}", one.number.value, one.manifest.error().describe());
    if (auto verified = verify_checkpoint(reader.files, one.path); verified.has_error())
      return fmt::format("{} does not verify: {}", one.number.value, verified.error().describe());
    whole.insert(one.number.value);
  }
  for (const std::uint64_t number : acknowledged)
    if (!whole.contains(number)) return fmt::format("{} was acknowledged and is lost", number);
  return {};
}

/// Return an object in the store that belongs to no checkpoint, or "".
std::string left_over(const std::shared_ptr<MemoryObjects>& objects,
                      const std::set<PendingCheckpoint>& kept = {}) {
  Launcher reader(objects);
  std::set<std::string> named;
  const auto listed = reader.store.list();
  for (const ListedCheckpoint& one : *listed) {
    named.insert(manifest_key(one.number));
    for (const ManifestFile& file : one.manifest->files)
      named.insert(fmt::format("checkpoints/{}/{}", file.at, file.path));
  }
  for (const auto& [key, text] : objects->all()) {
    const auto pending =
        parse_data_name(key.substr(12, key.find('/', 12) - 12));  // after "checkpoints/"
    if (named.contains(key) || is_closed_text(text) || (pending && kept.contains(*pending)))
      continue;
    return key + " is left";
  }
  return {};
}

/// One launcher meets a fault at operation `n`. The next one opens, perhaps with a fault too, and
/// goes on. Return false if the first had finished before.
bool live(std::uint64_t n, Fault fault, std::uint64_t next_ends, const Protocol& protocol,
          std::string& wrong) {
  const auto objects = std::make_shared<MemoryObjects>();
  Launcher first(objects, protocol);
  first.handle->at(n, fault);
  (void)first.store.open(Generation{1});
  if (!first.handle->ended()) work(first, Generation{1}, 1);
  const bool reached = first.handle->operations() >= n;
  if (wrong = broken(objects, first.acknowledged); !wrong.empty()) return reached;
  if (next_ends != 0) {
    Launcher cut(objects, protocol);
    cut.handle->at(next_ends, Fault::EndsAfter);
    (void)cut.store.open(Generation{2});
    if (wrong = broken(objects, first.acknowledged); !wrong.empty()) return reached;
  }
  Launcher next(objects, protocol);
  if (const auto opened = next.store.open(Generation{3}); opened.has_error()) {
    wrong = "cannot open: " + opened.error().describe();
    return reached;
  }
  objects->deliver_late();
  wrong = broken(objects, first.acknowledged);
  // The launcher after this one removes what arrives only now.
  if (wrong.empty() && fault != Fault::ArrivesLate) wrong = left_over(objects);
  if (!wrong.empty()) return reached;
  const auto number = next.store.next_number();
  if (const auto saved = next.save({Generation{3}, Attempt{2}, CheckpointSeq{1}}, number->value);
      !saved)
    wrong = "the next cannot save: " + saved.error().describe();
  if (wrong.empty()) wrong = broken(objects, next.acknowledged);
  return reached;
}

std::string all_faults(const Protocol& protocol, std::uint64_t& lives) {
  std::string wrong;
  for (const Fault fault :
       {Fault::EndsBefore, Fault::EndsAfter, Fault::Fails, Fault::AnswerIsLost, Fault::ArrivesLate})
    for (const std::uint64_t next_ends : {0, 4}) {
      if (next_ends != 0 && fault != Fault::EndsAfter) continue;
      for (std::uint64_t n = 1;; ++n, ++lives) {
        const bool reached = live(n, fault, next_ends, protocol, wrong);
        if (!wrong.empty())
          return fmt::format("fault {} at {}, then {}: {}", static_cast<int>(fault), n, next_ends,
                             wrong);
        if (!reached) break;
      }
    }
  return {};
}

TEST(ObjectCheckpoints, StayWholeAtAnyFault) {
  std::uint64_t lives = 0;
  EXPECT_EQ(all_faults({}, lives), "");
  EXPECT_GE(lives, 300u);
}

/// An owner and a launcher that takes the run from it, in any order. The first checks that it still
/// owns the run just before each commit, like RunLock::check. The second knows of the first only
/// what is in its memory.
std::string two_launchers(std::uint64_t seed, const Protocol& protocol) {
  const auto objects = std::make_shared<MemoryObjects>();
  Launcher first(objects, protocol), second(objects, protocol);
  Turns turns(seed);
  std::mt19937_64 random(seed);
  const std::uint64_t pause = random() % 90;
  first.handle->at(1 + random() % 150, random() % 2 == 0 ? Fault::AnswerIsLost : Fault::Fails);
  first.handle->before_each([&](const std::string&) { turns.wait(0); });
  second.handle->before_each([&](const std::string&) { turns.wait(1); });
  bool taken = false;  // one thread runs at a time
  std::set<std::uint64_t> before;
  std::string wrong;
  turns.run({[&] {
               (void)first.store.open(Generation{1});
               work(first, Generation{1}, 1, [&]() -> Result<Unit> {
                 if (taken) return Error{Errc::Fenced, "replaced"};
                 return Unit{};
               });
             },
             [&] {
               for (std::uint64_t n = 0; n < pause; ++n) turns.wait(1);
               taken = true;
               const auto opened = second.store.open(Generation{2});
               if (opened.has_error()) {
                 wrong = "cannot open: " + opened.error().describe();
                 return;
               }
               const auto number = second.store.next_number();
               for (std::uint64_t n = 0; n < 3; ++n) {
                 const PendingCheckpoint pending{Generation{2}, Attempt{7}, CheckpointSeq{n}};
                 if (const auto saved = second.save(pending, number->value + n);
                     !saved && saved.error().code != Errc::AlreadyExists)
                   wrong = "cannot save: " + saved.error().describe();
               }
             }});
  first.handle->before_each({});
  second.handle->before_each({});
  if (wrong.empty()) wrong = broken(objects, second.acknowledged);
  return wrong;
}

TEST(ObjectCheckpoints, OfTheOwnerAreSafeFromTheOneBeforeInAnyOrder) {
  for (std::uint64_t seed = 1; seed <= 150; ++seed)
    ASSERT_EQ(two_launchers(seed, {}), "") << "seed " << seed;
}

constexpr PendingCheckpoint kOne{Generation{1}, Attempt{0}, CheckpointSeq{1}};
constexpr PendingCheckpoint kTwo{Generation{1}, Attempt{0}, CheckpointSeq{2}};

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

TEST_F(ObjectCheckpoint, WhoseAnswerWasLostIsFoundCommittedAfterAll) {
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

  EXPECT_TRUE(run.store.discard_before(Attempt{9}));

  EXPECT_EQ(broken(objects, {1}), "");
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

Result<std::string> manifest_text(const CommitRequest& request) {
  TRY(Manifest manifest, manifest_of(request));
  for (ManifestFile& file : manifest.files)
    file.at = fmt::format("{}/rank-{:04}", data_name(request.pending), file.ranks.front().value);
  return format_manifest(manifest);
}

struct Mutant {
  const char* name;
  Protocol protocol;
};

std::vector<Mutant> mutants() {
  std::vector<Mutant> all(4);
  all[0].name = "RemovesDataBeforeTheManifest";
  all[0].protocol.remove = [](auto& store, ObjectStore& objects,
                              CheckpointNumber number) -> Result<Unit> {
    TRY(const Manifest manifest, store.verify(number));
    for (const ManifestFile& file : manifest.files)
      TRY_VOID(objects.remove(fmt::format("checkpoints/{}/{}", file.at, file.path)));
    return objects.remove(manifest_key(number));
  };
  all[1].name = "PutsTheManifestUnconditionallyAndAlone";
  all[1].protocol.commit = [](auto&, ObjectStore& objects, const CommitRequest& request,
                              const auto& may_commit) -> Result<Unit> {
    TRY(const std::string text, manifest_text(request));
    TRY_VOID(may_commit());
    return objects.put(manifest_key(request.number), text);
  };
  all[2].name = "DiscardsWhatMayBeCommitted";
  all[2].protocol.commit = [](auto& store, ObjectStore& objects, const CommitRequest& request,
                              const auto& may_commit) -> Result<Unit> {
    auto done = store.commit(request, may_commit);
    if (!done.has_error()) return Unit{};
    const std::string folder = "checkpoints/" + data_name(request.pending);
    TRY(const auto uploaded, objects.list(folder));
    for (const StoredObject& one : uploaded) TRY_VOID(objects.remove(one.key));
    return done.error();
  };
  all[3].name = "AcknowledgesErrors";
  all[3].protocol.commit = [](auto& store, ObjectStore&, const CommitRequest& request,
                              const auto& may_commit) -> Result<Unit> {
    (void)store.commit(request, may_commit);
    return Unit{};
  };
  return all;
}

TEST(ObjectCheckpointMutants, AreCaught) {
  for (const Mutant& mutant : mutants()) {
    std::uint64_t lives = 0;
    std::string how = all_faults(mutant.protocol, lives);
    for (std::uint64_t seed = 1; how.empty() && seed <= 100; ++seed)
      how = two_launchers(seed, mutant.protocol);
    EXPECT_NE(how, "") << mutant.name;
    std::cout << mutant.name << ": " << how << "\n";
  }
}

// The run is taken while a commit is on its way: the data may be removed only once the commit must
// fail.
TEST(ObjectCheckpointMutants, WithoutAClosedNumberWouldBeCaught) {
  const auto objects = std::make_shared<MemoryObjects>();
  Launcher first(objects);
  ASSERT_TRUE(first.store.open(Generation{1}));
  const auto shards = *first.upload(kOne);
  const auto late = first.store.commit(request_of(kOne, 1, shards), [&]() -> Result<Unit> {
    Launcher next(objects);
    EXPECT_TRUE(next.store.open(Generation{2}));
    EXPECT_EQ(broken(objects, {}), "");
    objects->remove(manifest_key(CheckpointNumber{1}));  // as if the next launcher did not close it
    return Unit{};
  });
  ASSERT_TRUE(late);
  EXPECT_NE(broken(objects, {}), "");
}

}  // namespace
}  // namespace train
