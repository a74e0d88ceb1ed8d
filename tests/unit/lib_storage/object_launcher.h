// A launcher and its nodes, which keep checkpoints in an object store of tests/fakes.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/storage/object_checkpoint_store.h"
#include "tests/fakes/object_store.h"
#include "tests/fakes/store.h"

namespace train {

using fakes::Fault;
using fakes::MemoryFileSystem;
using fakes::MemoryObjects;
using fakes::MemoryObjectStore;

inline const std::string kUrl = "s3://bucket/run";
inline const std::string kFolder = kUrl + "/checkpoints";

inline constexpr auto kYes = [] { return Result<Unit>(Unit{}); };

inline constexpr PendingCheckpoint kOne{Generation{1}, Attempt{0}, CheckpointSeq{1}};
inline constexpr PendingCheckpoint kTwo{Generation{1}, Attempt{0}, CheckpointSeq{2}};

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
inline std::string staged_folder(const PendingCheckpoint& pending, int rank) {
  return fmt::format("/staging/{}/{}", data_name(pending), rank);
}
inline void stage(MemoryFileSystem& disk, const PendingCheckpoint& pending) {
  for (const int rank : {0, 1}) {
    const std::string folder = staged_folder(pending, rank);
    disk.put(folder + "/model.pt", "model of " + data_name(pending));
    disk.put(fmt::format("{}/rank-000{}/rng.bin", folder, rank), fmt::format("rng of {}", rank));
  }
}
inline CommitRequest request_of(const PendingCheckpoint& pending, std::uint64_t number,
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

/// Return what a reader finds wrong, or "".
inline std::string broken(const std::shared_ptr<MemoryObjects>& objects,
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
inline std::string left_over(const std::shared_ptr<MemoryObjects>& objects,
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

}  // namespace train
