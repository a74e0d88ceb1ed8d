// Checks the guarantee of FORMAT.md section 2 at every cut: an acknowledged checkpoint is never
// lost, nothing with a checkpoint's name is incomplete, and the newest intact one is the last
// acknowledged one or the one being committed. Mutants then test the checker: it catches wrong
// orders and omissions that real programs have had.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "lib/storage/checkpoint_store.h"
#include "lib/storage/commit.h"
#include "lib/storage/retention.h"
#include "tests/fakes/store.h"

namespace train {
namespace {

using fakes::MemoryFileSystem;

const std::string kFolder = "/run/checkpoints";
constexpr std::uint64_t kPowerCuts = 120;  // random legal states tried for each cut

std::string model_of(std::uint64_t number) {
  return "model " + std::to_string(number) + std::string(40, 'm');
}
std::string rng_of(std::uint64_t number, int rank) {
  return "rng " + std::to_string(number) + "/" + std::to_string(rank);
}

/// How a save is done: the right way, and wrong ones.
struct Protocol {
  std::function<Result<Unit>(MemoryFileSystem&, const CommitRequest&)> commit;
  std::function<Result<Unit>(MemoryFileSystem&, CheckpointNumber)> remove;
  bool sync_files = true, sync_folders = true;
};

Result<Unit> commit_rightly(MemoryFileSystem& disk, const CommitRequest& request) {
  TRY_VOID(CheckpointStore(disk, kFolder).commit(request, [] { return Unit{}; }));
  return Unit{};
}
Result<Unit> remove_rightly(MemoryFileSystem& disk, CheckpointNumber number) {
  return CheckpointStore(disk, kFolder).remove(number);
}

struct Progress {
  std::uint64_t acknowledged = 0;  // the newest
  bool asked_to_remove_first = false;
};

/// Save checkpoint `number` from two ranks, then apply retention.
Result<Unit> save(MemoryFileSystem& disk, const Protocol& protocol, std::uint64_t number,
                  Progress& progress) {
  const PendingCheckpoint pending{Generation{1}, Attempt{0}, CheckpointSeq{number}};
  std::vector<CheckpointShard> shards;
  for (int rank : {0, 1}) {
    const std::string staged = "/staging/" + std::to_string(number) + "/" + std::to_string(rank);
    TRY(auto shard, write_shard(disk, kFolder, pending, Rank{rank}, staged, {.move = rank == 0}));
    shards.push_back(std::move(shard));
  }
  TRY_VOID(protocol.commit(disk, {.pending = pending,
                                  .number = CheckpointNumber{number},
                                  .world_size = 2,
                                  .shards = shards,
                                  .created = "2026-11-21T09:38:00.123456Z",
                                  .metrics = {{"loss", 0.5}},
                                  .metadata = {}}));
  progress.acknowledged = number;
  if (number < 3) return Unit{};
  std::vector<ScoredCheckpoint> kept;
  for (std::uint64_t n = 1; n <= number; ++n) kept.push_back({CheckpointNumber{n}, std::nullopt});
  for (const CheckpointNumber old : plan_retention({.num_to_keep = 2}, kept).remove) {
    progress.asked_to_remove_first = true;
    TRY_VOID(protocol.remove(disk, old));
  }
  return Unit{};
}

std::unique_ptr<MemoryFileSystem> disk_with_two() {
  auto disk = std::make_unique<MemoryFileSystem>();
  for (std::uint64_t number : {1, 2, 3}) {
    for (int rank : {0, 1}) {
      const std::string staged = "/staging/" + std::to_string(number) + "/" + std::to_string(rank);
      disk->put(staged + "/model.pt", model_of(number));
      disk->put(staged + "/rank-000" + std::to_string(rank) + "/rng.bin", rng_of(number, rank));
    }
  }
  Progress progress;
  const Protocol right{commit_rightly, remove_rightly};
  EXPECT_FALSE(save(*disk, right, 1, progress).has_error());
  EXPECT_FALSE(save(*disk, right, 2, progress).has_error());
  return disk;
}

/// Return what is wrong with a disk after a crash, or "".
std::string violation(MemoryFileSystem& disk, const Progress& progress) {
  CheckpointStore store(disk, kFolder);
  if (auto opened = store.open(Generation{2}); opened.has_error())
    return "cannot open: " + opened.error().describe();
  std::vector<std::uint64_t> intact;
  const auto listed = store.list();
  for (const ListedCheckpoint& one : *listed) {
    if (auto verified = store.verify(one.number); verified.has_error())
      return "half there: " + verified.error().describe();
    intact.push_back(one.number.value);
    if (disk.get(one.path + "/model.pt") != model_of(one.number.value))
      return "other bytes in " + one.path;
    for (int rank : {0, 1}) {
      const std::string rng = "/rank-000" + std::to_string(rank) + "/rng.bin";
      if (disk.get(one.path + rng) != rng_of(one.number.value, rank))
        return "other bytes in " + one.path + rng;
    }
  }
  const auto has = [&](std::uint64_t n) {
    return std::find(intact.begin(), intact.end(), n) != intact.end();
  };
  if (!has(2)) return "checkpoint 2 was acknowledged and is lost";
  if (progress.acknowledged == 3 && !has(3)) return "checkpoint 3 was acknowledged and is lost";
  if (!progress.asked_to_remove_first && !has(1)) return "checkpoint 1 is lost";
  const auto choice = store.open_for_restore();
  if (!choice->checkpoint || choice->checkpoint->number.value != intact.back())
    return "restore does not take the newest";
  return {};
}

struct Explored {
  std::uint64_t states = 0;
  std::vector<std::string> violations;
};

/// Cut at every change of the save of checkpoint 3, and within writes at several bytes. Check the
/// disk after a kill, and after power cuts that keep random legal subsets of the unsynced changes.
/// For wrong protocols, one violation suffices.
enum class Until { AllStatesSeen, FirstViolation };
Explored explore(const Protocol& protocol, Until until) {
  Explored explored;
  for (std::uint64_t n = 1;; ++n) {
    bool is_write = true;
    for (const std::size_t bytes :
         {std::size_t{0}, std::size_t{1}, std::size_t{20}, MemoryFileSystem::kWhole}) {
      if (!is_write && bytes != MemoryFileSystem::kWhole) continue;
      auto disk = disk_with_two();
      disk->skip_syncs(!protocol.sync_files, !protocol.sync_folders);
      disk->cut_power_at(n, bytes);
      Progress progress;
      (void)save(*disk, protocol, 3, progress);
      is_write = disk->trace().back().starts_with("write ");
      const auto look = [&](std::unique_ptr<MemoryFileSystem> after, const std::string& how) {
        ++explored.states;
        const std::string what = violation(*after, progress);
        if (!what.empty())
          explored.violations.push_back(disk->trace().back() + ", " + how + ": " + what);
      };
      look(disk->after_kill(), "killed");
      for (std::uint64_t seed = 0; seed < kPowerCuts; ++seed) {
        look(disk->after_power_cut(seed), "power cut, seed " + std::to_string(seed));
        if (until == Until::FirstViolation && !explored.violations.empty()) return explored;
      }
      if (!disk->power_lost())
        return explored;  // the save ended before the n-th change: all cuts are done
    }
  }
}

TEST(Crash, AtAnyChangeLeavesTheNewestAcknowledgedCheckpointWhole) {
  const Explored explored = explore({commit_rightly, remove_rightly}, Until::AllStatesSeen);

  EXPECT_EQ(explored.violations, std::vector<std::string>{});
  EXPECT_GE(explored.states, 10'000U);
}

TEST(Crash, AtAnyByteOfTheManifestLeavesTheOneBeforeTheNewest) {
  auto probe = disk_with_two();
  Progress progress;
  ASSERT_FALSE(save(*probe, {commit_rightly, remove_rightly}, 3, progress).has_error());
  const std::size_t bytes = probe->get(kFolder + "/checkpoint_000003/.manifest.json").size();
  const std::string manifest_write =
      "write " + kFolder + "/.tmp-1-0.3/.manifest.json " + std::to_string(bytes);
  const auto& trace = probe->trace();
  const auto before = disk_with_two()->changes();
  const auto position =
      std::find(trace.begin(), trace.end(), manifest_write) - trace.begin() + 1 - before;

  for (std::size_t cut = 0; cut <= bytes; ++cut) {
    auto disk = disk_with_two();
    disk->cut_power_at(position, cut);
    Progress cut_progress;
    ASSERT_TRUE(save(*disk, {commit_rightly, remove_rightly}, 3, cut_progress).has_error());
    ASSERT_EQ(disk->trace().back(), manifest_write);
    ASSERT_EQ(violation(*disk->after_kill(), cut_progress), "") << cut;
    ASSERT_EQ(violation(*disk->after_power_cut(cut), cut_progress), "") << cut;
    ASSERT_EQ(CheckpointStore(*disk->after_kill(), kFolder).latest()->value().number,
              CheckpointNumber{2})
        << cut;
  }
}

TEST(Checker, CatchesTheNameBeforeTheManifest) {
  const auto wrong = [](MemoryFileSystem& disk, const CommitRequest& request) -> Result<Unit> {
    CheckpointStore store(disk, kFolder);
    const std::string pending = join_path(kFolder, pending_name(request.pending));
    TRY(auto files, merge_shards(request.shards, request.world_size));
    TRY_VOID(assemble(disk, pending, request.shards, files));
    TRY_VOID(publish(disk, pending, store.path_of(request.number)));
    return write_manifest(disk, store.path_of(request.number),
                          {.checkpoint = request.number,
                           .generation = request.pending.generation,
                           .world_size = 2,
                           .created = "t",
                           .files = files});
  };
  EXPECT_FALSE(explore({wrong, remove_rightly}, Until::FirstViolation).violations.empty());
}

TEST(Checker, CatchesTheManifestBeforeTheFiles) {
  const auto wrong = [](MemoryFileSystem& disk, const CommitRequest& request) -> Result<Unit> {
    CheckpointStore store(disk, kFolder);
    const std::string committed = store.path_of(request.number);
    TRY(auto files, merge_shards(request.shards, request.world_size));
    TRY_VOID(disk.make_folder(committed));
    TRY_VOID(disk.sync_folder(kFolder));
    TRY_VOID(write_manifest(
        disk, committed,
        {.checkpoint = request.number, .world_size = 2, .created = "t", .files = files}));
    for (const CheckpointShard& shard : request.shards)
      TRY_VOID(disk.rename(join_path(join_path(kFolder, pending_name(request.pending)), shard.dir),
                           join_path(committed, shard.dir)));
    return assemble(disk, committed, request.shards, files);
  };
  EXPECT_FALSE(explore({wrong, remove_rightly}, Until::FirstViolation).violations.empty());
}

TEST(Checker, CatchesARenameBeforeTheFilesAreSynced) {
  EXPECT_FALSE(
      explore({commit_rightly, remove_rightly, /*sync_files=*/false, /*sync_folders=*/true},
              Until::FirstViolation)
          .violations.empty());
}

TEST(Checker, CatchesFoldersThatAreNotSynced) {
  EXPECT_FALSE(
      explore({commit_rightly, remove_rightly, /*sync_files=*/true, /*sync_folders=*/false},
              Until::FirstViolation)
          .violations.empty());
}

TEST(Checker, CatchesAnAcknowledgementBeforeTheParentIsSynced) {
  const auto wrong = [](MemoryFileSystem& disk, const CommitRequest& request) -> Result<Unit> {
    CheckpointStore store(disk, kFolder);
    const std::string pending = join_path(kFolder, pending_name(request.pending));
    TRY(auto files, merge_shards(request.shards, request.world_size));
    TRY_VOID(assemble(disk, pending, request.shards, files));
    TRY_VOID(write_manifest(
        disk, pending,
        {.checkpoint = request.number, .world_size = 2, .created = "t", .files = files}));
    return disk.rename_new(pending, store.path_of(request.number));
  };
  EXPECT_FALSE(explore({wrong, remove_rightly}, Until::FirstViolation).violations.empty());
}

TEST(Checker, CatchesDeletingInPlace) {
  const auto wrong = [](MemoryFileSystem& disk, CheckpointNumber number) {
    return remove_tree(disk, kFolder + "/" + checkpoint_name(number));
  };
  EXPECT_FALSE(explore({commit_rightly, wrong}, Until::FirstViolation).violations.empty());
}

TEST(Checker, CatchesDeletingTheOldBeforeTheNewIsThere) {
  const auto wrong = [](MemoryFileSystem& disk, const CommitRequest& request) -> Result<Unit> {
    TRY_VOID(remove_rightly(disk, CheckpointNumber{2}));
    return commit_rightly(disk, request);
  };
  EXPECT_FALSE(explore({wrong, remove_rightly}, Until::FirstViolation).violations.empty());
}

/// Rewrite the manifest of checkpoint 2 with the same bytes before a correct save of 3. This does
/// no harm unless something happens meanwhile.
Protocol rewrites_metadata(
    std::function<Result<Unit>(MemoryFileSystem&, const std::string& path, std::string text)> how) {
  const auto commit = [how = std::move(how)](MemoryFileSystem& disk,
                                             const CommitRequest& request) -> Result<Unit> {
    const std::string path =
        CheckpointStore(disk, kFolder).path_of(CheckpointNumber{2}) + "/.manifest.json";
    TRY_VOID(how(disk, path, disk.get(path)));
    return commit_rightly(disk, request);
  };
  return {commit, remove_rightly};
}

TEST(Checker, AcceptsMetadataThatIsReplacedWhole) {
  const auto right = [](MemoryFileSystem& disk, const std::string& path, std::string text) {
    return write_small_file(disk, path, text);
  };
  EXPECT_EQ(explore(rewrites_metadata(right), Until::AllStatesSeen).violations,
            std::vector<std::string>{});
}

// torch.distributed.checkpoint 2.11, filesystem.py, removes `.metadata` and then renames the new
// file to it.
TEST(Checker, CatchesDeletingTheMetadataBeforeTheRename) {
  const auto wrong = [](MemoryFileSystem& disk, const std::string& path,
                        std::string text) -> Result<Unit> {
    TRY_VOID(write_small_file(disk, path + ".tmp", text));
    TRY_VOID(disk.remove_file(path));
    return disk.rename(path + ".tmp", path);
  };
  EXPECT_FALSE(explore(rewrites_metadata(wrong), Until::FirstViolation).violations.empty());
}

// Ray Train v2 truncates checkpoint_manager_snapshot.json and rewrites it.
TEST(Checker, CatchesJsonThatIsRewrittenInPlace) {
  const auto wrong = [](MemoryFileSystem& disk, const std::string& path,
                        std::string text) -> Result<Unit> {
    TRY(auto file, disk.open_to_append(path));
    TRY_VOID(file->truncate(0));
    TRY_VOID(file->write(text));
    return file->sync();
  };
  EXPECT_FALSE(explore(rewrites_metadata(wrong), Until::FirstViolation).violations.empty());
}

}  // namespace
}  // namespace train
