// The table of a checkpoint: which files, of which ranks, with which digests, and what they were
// reported with. Struct <-> JSON and all validation; pure but for read_manifest. The format is
// FORMAT.md section 3.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/ids.h"
#include "lib/base/metrics.h"
#include "lib/base/result.h"
#include "lib/model/checkpoint_file.h"
#include "lib/storage/digest.h"
#include "lib/storage/file_system.h"

namespace train {

inline constexpr int kManifestVersion = 2;
inline constexpr std::uint64_t kManifestBytesMax = 64 << 20;
inline constexpr std::string_view kManifestName = ".manifest.json";

/// Number of a committed checkpoint, counted over the whole run, from 1.
using CheckpointNumber = Id<struct CheckpointNumberTag, std::uint64_t>;

/// Its path is one that check_file_path allows.
struct ManifestFile : CheckpointFile {
  std::vector<Rank> ranks = {};  // who brought it, ascending
  // In an object store: the folder of checkpoints/ that it lies in, "data-3-0.4/rank-0003".
  std::string at = {};
  // On the disks of these nodes instead of here, in their folder `at`.
  std::vector<std::string> nodes = {};
  bool operator==(const ManifestFile&) const = default;
};

struct Manifest {
  CheckpointNumber checkpoint = {};
  Generation generation = {};
  Attempt attempt = {};
  CheckpointSeq checkpoint_seq = {};
  int world_size = 1;
  std::string created = {};              // RFC 3339
  std::vector<ManifestFile> files = {};  // by path
  Metrics metrics = {};                  // rank 0's
  // key "data": the dataset position; NaN and infinities become null
  boost::json::object metadata = {};
  bool operator==(const Manifest&) const = default;

  std::uint64_t total_bytes() const;
  /// Where files are that are not here, each name once: empty where all of them are.
  std::vector<std::string> nodes() const;
};

/// "checkpoint_000012".
std::string checkpoint_name(CheckpointNumber number);
/// Nothing for any other name.
std::optional<CheckpointNumber> parse_checkpoint_name(std::string_view name);

/// Refuse a path that would leave the checkpoint's folder, hide in it, or break a terminal
/// (FORMAT.md section 2).
Result<Unit> check_file_path(std::string_view path);
/// Show a name with control characters and quotes escaped, for messages.
std::string escape_name(std::string_view name);

/// The bytes of .manifest.json. Sorts the files; refuses what parse_manifest would refuse.
Result<std::string> format_manifest(Manifest manifest);
/// Corrupt when the digest does not match, InvalidArgument when it says what cannot be.
Result<Manifest> parse_manifest(std::string_view text);
/// Read and parse the manifest in a checkpoint's folder. NotFound: the folder is no checkpoint.
Result<Manifest> read_manifest(FileSystem& fs, const std::string& folder);

}  // namespace train
