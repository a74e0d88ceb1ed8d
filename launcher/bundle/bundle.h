// Makes a bundle (train-run bundle): one archive of what a bug report about a run needs. Calls
// block; a run in an object store is read over the network.
#pragma once

#include <cstdint>
#include <string>

#include "lib/base/result.h"
#include "lib/storage/run_folder.h"

namespace train {

inline constexpr std::uint64_t kBundleBytesDefault = 64u << 20;
inline constexpr std::uint64_t kBundleBytesMin = 64u << 10, kBundleBytesMax = 4ull << 30;

struct BundleOptions {
  std::string path;                               // of the archive
  std::uint64_t bytes_max = kBundleBytesDefault;  // of the files of the run, before compression
  std::string build;                              // our version
};

struct BundleSummary {
  std::uint64_t bytes = 0;    // of the archive
  std::size_t files = 0;      // of the run
  std::size_t shortened = 0;  // of these: those that are not complete
  std::size_t left_out = 0;
  std::string secrets;  // what may be secret and is not known here; "": nothing
};

/// Write the archive at `options.path`: the run's files, with secrets redacted, facts about this
/// machine, and MANIFEST.txt, which says what is there, what is not, and why. A file that cannot be
/// read to its end is included as far as it can be. AlreadyExists if the path is taken.
Result<BundleSummary> make_bundle(const RunFolder& folder, const BundleOptions& options);

}  // namespace train
