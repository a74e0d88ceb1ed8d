// What a run has on disk and what outlives its launchers: the synced part of its journal, its
// report log and its committed checkpoints. A launcher that resumes the run reads it as
// launcher/cluster/run/run_record.cc does.
#pragma once

#include <boost/json/object.hpp>
#include <map>
#include <set>
#include <vector>

#include "launcher/core/run_controller.h"
#include "tests/sim/faults.h"

namespace train::sim {

struct SimFolder {
  struct Record {
    Generation generation;
    boost::json::object event;
  };
  struct Committed {
    Attempt attempt;
    std::uint64_t checkpoint_seq = 0;
    CheckpointInfo info;
  };
  std::vector<Record> journal;
  std::map<Attempt, std::map<Rank, std::uint64_t>> reports;  // last report_seqs
  std::vector<Committed> checkpoints;                        // by number
  std::set<std::uint64_t> validated;                         // their numbers
};

/// Read the folder for a launcher of `generation`, and note what its journal lacks.
RunStart start_from(SimFolder& folder, const Plan& plan, Generation generation);

}  // namespace train::sim
