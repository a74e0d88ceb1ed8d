// Writes a ShardedState to files and reads it back: rank-0003/sharded.safetensors holds what rank 3
// wrote. state_io.cc calls this.
#pragma once

#include <train/torch.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sdk/torch/shard_plan.h"
#include "sdk/torch/tensor_file.h"

namespace train::sdk {

/// Copy what this rank writes: its pieces, and the replicated tensors that are assigned to it.
/// `metadata` goes into the file's header.
StagedFile stage_sharded(const ShardedState& state, int rank, int world_size,
                         std::map<std::string, std::string> metadata = {{"format", "pt"}});

/// One rank's piece of a tensor, in its file.
struct SavedPiece {
  std::size_t file = 0;
  TensorEntry entry;
  std::vector<std::int64_t> shape;  // of the whole tensor
  Box box;
};

/// Who wrote a file of a checkpoint.
struct SavedBy {
  bool each_rank = true;  // in the folders `rank-*`; else one rank, beside them, whole tensors
  std::int64_t world_size = 0;  // files of higher ranks are of an older state; 0: it is not known
};

/// The files of one name in a checkpoint, no matter how many ranks wrote them.
class SavedTensors {
 public:
  /// Open the files and read what they hold. Throws Failure("not_found" or "corrupt").
  SavedTensors(const CheckedFiles& checkpoint, const std::string& file_name, const SavedBy& by);

  const std::string& path() const { return files_.front().path(); }
  /// What the header of the first file says besides.
  const std::map<std::string, std::string>& metadata() const { return files_.front().metadata(); }
  /// The tensors by name; each has one piece or more.
  const std::map<std::string, std::vector<SavedPiece>>& tensors() const { return tensors_; }

  /// Fill the pieces of `state`, and verify what it read. Reads only what it needs, or, when it has
  /// to verify the files, each file that contains any of it completely. Throws Failure("corrupt"),
  /// or, before it changes anything, "invalid_argument" with everything that does not fit `what`.
  /// With `names`, other tensors than these must not be there.
  void load(const ShardedState& state, const std::string& what,
            const std::optional<std::set<std::string>>& names = {});
  /// Verify the file that metadata() is of, after load().
  void verify_metadata();

 private:
  std::string folder_;
  std::vector<TensorReader> files_;
  bool first_is_verified_ = false;
  std::map<std::string, std::vector<SavedPiece>> tensors_;
};

}  // namespace train::sdk
