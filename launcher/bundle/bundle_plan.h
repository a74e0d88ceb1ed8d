// Decides which files of a run's folder go into a bundle (train-run bundle), and how much of each.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace train {

/// A file of the run's folder. `path` is relative to the folder.
struct BundleCandidate {
  std::string path;
  std::uint64_t bytes = 0;
};

/// What the bundle takes of a file: its first bytes, its last bytes, or both; or all of it.
struct BundlePart {
  std::string path;
  std::uint64_t bytes = 0;  // of the whole file
  std::uint64_t head = 0, tail = 0;

  bool whole() const { return head + tail >= bytes; }
  bool operator==(const BundlePart&) const = default;
};

struct LeftOut {
  std::string path;
  std::uint64_t bytes = 0;
  std::string why;
  bool operator==(const LeftOut&) const = default;
};

struct BundlePlan {
  std::vector<BundlePart> parts;  // in the order of the archive: the most telling first
  std::vector<LeftOut> left_out;
};

/// Return the plan for at most `bytes_max` bytes. Small files that tell what happened come first.
/// Each kind of file gets at most half of the room that is left, so that none drives out the next;
/// output of newer attempts comes before that of older ones. Files of one kind share their room
/// equally; of a file that needs more than its share, the beginning and the end are taken, of
/// samples only the end.
BundlePlan plan_bundle(std::vector<BundleCandidate> files, std::uint64_t bytes_max);

/// Return whether a folder in the run's folder may hold anything that a bundle takes. `path` is
/// relative to the run's folder.
bool is_bundled_folder(std::string_view path);

}  // namespace train
