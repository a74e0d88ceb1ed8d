// Times storage calls in a run that has kept very many small checkpoints:
//
//   many_checkpoints FOLDER [COUNT]     makes COUNT (10000) of them in FOLDER, which must not
//                                       exist, and prints a line per call: milliseconds, what
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "launcher/cluster/checkpoints/checkpoint_manager.h"
#include "launcher/cluster/checkpoints/checkpoint_rows.h"

namespace train {
namespace {

namespace fs = std::filesystem;
constexpr int kFiles = 3;
constexpr int kCommits = 20;
const std::string kCreated = "2026-11-21T09:38:00.123456Z";

template <class T>
T must(Result<T> result) {
  if (result) return std::move(*result);
  fmt::print(stderr, "many_checkpoints: {}\n", result.error().describe());
  std::exit(1);
}

template <class F>
auto timed(const std::string& what, F&& call) {
  const auto begun = std::chrono::steady_clock::now();
  auto result = call();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begun;
  fmt::print("{:9.1f} ms  {}\n", took.count(), what);
  std::fflush(stdout);
  return result;
}

Metrics metrics_of(std::uint64_t number) {
  return {{"epoch", static_cast<std::int64_t>(number)},
          {"loss", 1.0 / static_cast<double>(number)},
          {"val.accuracy", 0.5}};
}

/// Write it as a commit does, but without syncs: 10,000 commits would take minutes.
void write_checkpoint(const std::string& folder, std::uint64_t number) {
  Manifest manifest{.checkpoint = CheckpointNumber{number},
                    .generation = Generation{1},
                    .checkpoint_seq = CheckpointSeq{number},
                    .created = kCreated,
                    .metrics = metrics_of(number)};
  fs::create_directories(folder);
  for (int i = 0; i < kFiles; ++i) {
    const std::string name = fmt::format("file-{}.bin", i), bytes(1000, static_cast<char>('a' + i));
    std::ofstream(join_path(folder, name)) << bytes;
    manifest.files.push_back({name, bytes.size(), digest_of(bytes), {Rank{0}}});
  }
  std::ofstream(join_path(folder, kManifestName)) << must(format_manifest(manifest));
}

Commit commit_of(RunRecord& record, std::uint64_t number) {
  const std::string staged = record.folder().path() + "/staged";
  fs::create_directories(staged);
  std::ofstream(staged + "/file.bin") << std::string(1000, 'x');
  const auto shard =
      must(write_shard(record.files(), record.checkpoints().folder(),
                       {record.generation(), Attempt{0}, CheckpointSeq{number}}, Rank{0}, staged));
  const StagedShard brought{shard, number};
  return {.attempt = Attempt{0}, .checkpoint_seq = number, .number = number, .shards = {brought}};
}

void measure(const std::string& folder, std::uint64_t count) {
  ::setenv("XDG_STATE_HOME", (folder + "-state").c_str(), 1);
  JobSpec spec;
  spec.run_config.name = fs::path(folder).filename();
  spec.run_config.storage_path = fs::path(folder).parent_path();
  must(RunRecord::open(spec, {})).reset();
  for (std::uint64_t number = 1; number <= count; ++number)
    write_checkpoint(
        RunFolder(folder).checkpoints() + "/" + checkpoint_name(CheckpointNumber{number}), number);

  auto record = timed("RunRecord::open, of a run that goes on",
                      [&] { return must(RunRecord::open(spec, {})); });
  CheckpointStore& store = record->checkpoints();
  const auto listed = timed("list", [&] { return must(store.list()); });
  timed("checkpoint_table and its text",
        [&] { return checkpoints_text(checkpoint_table(listed, {})).size(); });
  timed("latest", [&] { return must(store.latest()); });
  timed("open_for_restore", [&] { return must(store.open_for_restore()); });
  timed("verify of one", [&] { return must(store.verify(CheckpointNumber{count / 2})); });
  timed("next_number", [&] { return must(store.next_number()); });
  timed("discard_before", [&] { return must(store.discard_before(Attempt{1})); });

  std::uint64_t number = count;
  for (const std::optional<int> keep :
       {std::optional<int>(), std::optional(static_cast<int>(count)), std::optional(100)}) {
    spec.run_config.checkpoint_config.num_to_keep = keep;
    const std::string policy = keep ? fmt::format("num_to_keep: {}", *keep) : "all are kept";
    auto manager = timed("CheckpointManager, " + policy, [&] {
      return CheckpointManager(spec.run_config.checkpoint_config, *record);
    });
    for (int i = 0; i < kCommits; ++i) {
      const Commit commit = commit_of(*record, ++number);
      timed("commit, " + policy,
            [&] { return must(manager.commit(commit, metrics_of(number), kCreated)); });
    }
  }
}

}  // namespace
}  // namespace train

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    fmt::print(stderr, "usage: many_checkpoints FOLDER [COUNT]\n");
    return 2;
  }
  train::measure(std::filesystem::absolute(argv[1]),
                 argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 10'000);
  return 0;
}
