// What a run's launcher does for `ship` before the first attempt: it lists the code, and keeps a
// copy of it for the nodes.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/job_spec.h"
#include "lib/base/result.h"
#include "lib/storage/run_folder.h"

namespace train {

class CodeShipment {
 public:
  struct Made {
    std::string folder;  // with the code, in the run's folder
    std::string text;    // what it is, for the user
    std::vector<std::string> warnings;
  };

  /// `restarted`: a traind has started this launcher again, so the run's code stays what it was.
  /// `spec` must outlive this object.
  CodeShipment(const JobSpec& spec, RunFolder run, bool restarted)
      : spec_(spec), run_(std::move(run)), restarted_(restarted) {}

  /// Check that what is here now can be shipped, before anything of the run exists. Blocks.
  static Result<Unit> check(const JobSpec& spec);
  /// Make the copy. Without the working_dir, as on another machine, the copy of the launcher before
  /// stays. `stopped` is asked now and then; if it returns true, this ends with Cancelled. Blocks;
  /// on one thread at a time.
  Result<Unit> make(const std::function<bool()>& stopped);
  /// Return what make() has made; null before its end.
  const Made* made() const { return made_ ? &*made_ : nullptr; }

 private:
  const JobSpec& spec_;
  const RunFolder run_;
  const bool restarted_;
  std::optional<Made> made_;
};

}  // namespace train
