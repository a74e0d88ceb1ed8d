// The committed checkpoints of a run in an object store. Nothing can be renamed there, so files are
// uploaded under a name that belongs to one part of one pending checkpoint, and the manifest, put
// on the condition that no other launcher has put one of that number, says where each of them lies.
// A node that was cut off writes under the names of its own attempt only: it cannot harm what is
// committed. FORMAT.md section 6.
#pragma once

#include <memory>
#include <set>
#include <string>

#include "lib/storage/checkpoint_store.h"
#include "lib/storage/object_files.h"

namespace train {

inline constexpr std::string_view kObjectCheckpoints = "checkpoints";  // key, below the run

/// "data-3-0.12": where all parts of a checkpoint are, in checkpoints/.
std::string data_name(const PendingCheckpoint& pending);
std::optional<PendingCheckpoint> parse_data_name(std::string_view name);

/// Upload `staged`, a folder of this machine, as the part of `rank`. Bytes are digested on the way,
/// and what the store then holds is checked against them. On an error nothing of it is used by
/// anybody, and the caller may try again; `on_bytes` may end it.
Result<CheckpointPart> upload_part(FileSystem& local, ObjectStore& store,
                                   const PendingCheckpoint& pending, Rank rank,
                                   const std::string& staged, const OnBytes& on_bytes = {});

class ObjectCheckpointStore final : public CheckpointStore {
 public:
  /// `url`: the run's; `files` shows it.
  ObjectCheckpointStore(ObjectFiles& files, const std::string& url)
      : CheckpointStore(files, join_path(url, kObjectCheckpoints)), store_(files.store()) {}

  Result<std::vector<std::string>> open(Epoch current,
                                        const std::vector<PendingCheckpoint>& keep = {}) override;
  Result<std::vector<PendingCheckpoint>> pending() const override;
  Result<Manifest> commit(const CommitRequest& request,
                          const std::function<Result<Unit>()>& may_commit) override;
  Result<Unit> remove(CheckpointNumber number) override;
  Result<Unit> discard(const PendingCheckpoint& pending) override;
  Result<Unit> discard_before(Attempt attempt) override;

 private:
  Result<std::set<PendingCheckpoint>> uploaded() const;
  Result<Unit> remove_below(const std::string& key);
  Result<Unit> check_uploaded(const PendingCheckpoint& pending, const Manifest& manifest);

  ObjectStore& store_;
  std::set<PendingCheckpoint> committed_;  // whose data is some checkpoint's
};

}  // namespace train
