// The table of a checkpoint: its files with their ranks and digests, and the metrics and metadata
// reported with them. This file converts the struct to JSON and back, and does all validation.
// Pure, except read_manifest. FORMAT.md section 3 has the format.
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

/// The number of a committed checkpoint, counted over the whole run, from 1.
using CheckpointNumber = Id<struct CheckpointNumberTag, std::uint64_t>;

/// One file of a checkpoint. Its path satisfies check_file_path.
struct ManifestFile : CheckpointFile {
  std::vector<Rank> ranks = {};  // the ranks that brought it, ascending
  // The folder below checkpoints/, in an object store or on nodes' disks, that holds the file:
  // "data-3-0.4/rank-0003". Empty: it is in its place in the checkpoint's folder.
  std::string at = {};
  // The nodes whose disks hold the file, in their folder `at`; empty: it is in storage.
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
  // Key "data" has the dataset position. NaN and infinities become null.
  boost::json::object metadata = {};
  bool operator==(const Manifest&) const = default;

  std::uint64_t total_bytes() const;
  /// Return the names of the nodes that hold files, each once; empty if all files are here.
  std::vector<std::string> nodes() const;
};

/// Return the name of its folder: "checkpoint_000012".
std::string checkpoint_name(CheckpointNumber number);
/// Parse such a name; return nothing for any other text.
std::optional<CheckpointNumber> parse_checkpoint_name(std::string_view name);

/// Whether a part of a path may begin with a dot.
enum class HiddenNames { Refused, Allowed };
/// Refuse a path that would leave its folder or disturb a terminal, or is too long or too deep.
Result<Unit> check_relative_path(std::string_view path, HiddenNames hidden);

/// Refuse a path that would leave the checkpoint's folder, be hidden in it, or disturb a terminal
/// (FORMAT.md section 2).
Result<Unit> check_file_path(std::string_view path);
/// Escape control characters and quotes in a name, for messages.
std::string escape_name(std::string_view name);

/// Return the bytes of .manifest.json. Sorts the files. Fails if parse_manifest would.
Result<std::string> format_manifest(Manifest manifest);
/// Parse the bytes. Corrupt if the digest does not match, InvalidArgument if the content is wrong.
Result<Manifest> parse_manifest(std::string_view text);
/// Read and parse the manifest in a checkpoint's folder. NotFound if the folder is no checkpoint.
Result<Manifest> read_manifest(FileSystem& fs, const std::string& folder);

}  // namespace train
