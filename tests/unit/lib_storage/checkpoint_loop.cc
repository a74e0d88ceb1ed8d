// Commits checkpoints of two ranks and journal records in a loop until it is killed. For each
// acknowledged one, it prints a line "checkpoint N" or "record N" to stdout. Argument: the run's
// folder.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "lib/storage/checkpoint_store.h"
#include "lib/storage/journal.h"
#include "lib/storage/posix_file_system.h"
#include "lib/storage/retention.h"
#include "lib/storage/run_folder.h"
#include "lib/storage/run_lock.h"

namespace train {
namespace {

constexpr std::size_t kModelBytes = 300'000;

void acknowledge(std::string_view what, std::uint64_t number) {
  const std::string line = fmt::format("{} {}\n", what, number);
  if (::write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    std::exit(3);
}

Result<Unit> save(FileSystem& fs, const RunFolder& run, CheckpointStore& store,
                  PendingCheckpoint pending, RunLock& lock) {
  TRY(const CheckpointNumber number, store.next_number());
  std::vector<CheckpointShard> shards;
  for (int rank : {0, 1}) {
    const std::string staged =
        fmt::format("{}/staging/{}-{}-{}", run.path(), pending.generation.value,
                    pending.checkpoint_seq.value, rank);
    TRY_VOID(make_folders(fs, staged));
    TRY_VOID(
        write_small_file(fs, staged + "/model.bin",
                         std::string(kModelBytes, static_cast<char>('a' + number.value % 26))));
    TRY_VOID(write_small_file(fs, fmt::format("{}/rng-{}.bin", staged, rank),
                              fmt::format("{} {}", number.value, rank)));
    TRY(auto shard,
        write_shard(fs, run.checkpoints(), pending, Rank{rank}, staged, {.move = rank == 0}));
    TRY_VOID(remove_tree(fs, staged));
    shards.push_back(std::move(shard));
  }
  TRY_VOID(store.commit({.pending = pending,
                         .number = number,
                         .world_size = 2,
                         .shards = shards,
                         .created = "t",
                         .metrics = {},
                         .metadata = {}},
                        [&] { return lock.check(); }));
  acknowledge("checkpoint", number.value);
  TRY(const auto listed, store.list());
  std::vector<ScoredCheckpoint> kept;
  for (const ListedCheckpoint& one : listed) kept.push_back({one.number, std::nullopt});
  for (const CheckpointNumber old : plan_retention({.num_to_keep = 3}, kept).remove)
    TRY_VOID(store.remove(old));
  return Unit{};
}

Result<Unit> loop(const std::string& folder) {
  PosixFileSystem fs;
  const RunFolder run(folder);
  TRY(auto lock, RunLock::acquire(fs, run.lock(), {"here", ::getpid(), "now"}));
  TRY(auto journal, Journal::open(fs, run.journal()));
  TRY(const Generation generation, journal->take_generation("now", {}));
  CheckpointStore store(fs, run.checkpoints());
  TRY_VOID(store.open(generation));
  std::uint64_t seq = journal->replayed().last_seq() + 1;
  for (std::uint64_t checkpoint_seq = 1;; ++checkpoint_seq) {
    TRY_VOID(journal->append({{{"event", "saving"}}, {{"event", "still_saving"}}}, "now"));
    acknowledge("record", seq += 2);
    TRY_VOID(save(fs, run, store, {generation, Attempt{0}, CheckpointSeq{checkpoint_seq}}, lock));
  }
}

}  // namespace
}  // namespace train

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const auto ended = train::loop(argv[1]);
  fmt::print(stderr, "{}\n", ended.error().describe());
  return 1;
}
