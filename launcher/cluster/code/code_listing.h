// Which files of a job's working_dir are its code: what `ship` sends to the nodes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "launcher/core/job_spec.h"
#include "lib/base/result.h"

namespace train {

struct ListedFile {
  std::string path;  // relative to working_dir
  std::uint64_t bytes = 0;
  bool executable = false;
};

struct CodeListing {
  std::vector<ListedFile> files;  // by path
  std::uint64_t bytes = 0;
  std::vector<std::string> warnings;
};

/// List what spec.ship names: all files below working_dir but what .trainignore, or without one
/// .gitignore, leaves out, there and in each folder; or those that its patterns match. Neither .git
/// nor storage_path, nor the folder of any run or sweep, is ever part of it. The files that the
/// job's commands name by a relative path always are: programs lie in folders that version control
/// ignores. A link to a file counts as that file; one to a folder is left out, with a warning.
/// There is a warning, too, for a pattern that matches nothing. InvalidSpec: there are too many
/// files, they are too large, or a name is not usable. Blocks; `stopped` is asked now and then: if
/// it returns true, this ends with Cancelled.
Result<CodeListing> list_code(
    const JobSpec& spec, const std::function<bool()>& stopped = [] { return false; });

}  // namespace train
