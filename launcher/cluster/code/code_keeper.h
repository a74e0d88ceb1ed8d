// A run's code in its folder: a copy of what the job's `ship` names, made before the first attempt.
// Nodes fetch it from there, so all of them have the same files, whatever becomes of working_dir
// while the run goes on. Calls block; only the run's owner may make them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "launcher/cluster/code/code_listing.h"
#include "lib/base/result.h"
#include "lib/storage/run_folder.h"

namespace train {

struct KeptCode {
  std::string folder;  // code/<digest of its table> in the run's folder
  std::size_t files = 0;
  std::uint64_t bytes = 0;
};

/// Copy the files from `from` into the run's folder, and remove what earlier launchers have kept
/// there. A file that has vanished since it was listed is left out. If it fails, what was kept
/// stays. Permission: the folder of code is a link. `stopped` is asked now and then; if it returns
/// true, this ends with Cancelled.
Result<KeptCode> keep_code(const RunFolder& run, const std::string& from,
                           const CodeListing& listing, const std::function<bool()>& stopped);

/// Return the folder that an earlier launcher has kept; NotFound: there is none whose table is what
/// its name says.
Result<std::string> kept_code(const RunFolder& run);

}  // namespace train
