// The workers that have stayed after an earlier run, as its folder tells of them: another run may
// begin with them (docs/driver.md, "Several runs by the same workers").
#pragma once

#include <string>

#include "launcher/core/job_spec.h"
#include "launcher/core/kept_group.h"
#include "lib/base/result.h"
#include "lib/storage/run_folder.h"

namespace train {

struct KeptRun {
  std::string run_id, owner_key;  // nodes know the workers under these
  Generation generation;          // of the newest launcher
  KeptWorkersOf workers;
};

/// Read a run's folder. NotFound if no workers have stayed after it. `spec`: of the run that is to
/// begin. Blocks.
Result<KeptRun> read_kept_run(const RunFolder& folder, const JobSpec& spec);

/// Take the workers for the run in `taker`: others get AlreadyExists from now on. Blocks.
Result<Unit> take_workers(const RunFolder& folder, const std::string& taker);
/// Return the folder of the run that has taken the workers that stayed after the run in `folder`;
/// empty: none has.
std::string taker_of_workers(const RunFolder& folder);

/// Return why a run of this spec cannot keep its workers for another one; empty: it can.
std::string why_none_stay(const JobSpec& spec, bool own_daemons);

/// Return the keys of the spec in which workers of one run differ from those of another, however
/// alike their work may be: "command, env"; empty: in none.
std::string worker_differences(const JobSpec& before, const JobSpec& now);

}  // namespace train
