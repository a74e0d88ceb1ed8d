// Makes the supervisor's answer to a worker that says hello. Pure.
#pragma once

#include <map>
#include <string>

#include "lib/base/ids.h"
#include "lib/base/result.h"
#include "lib/wire/worker_messages.h"

namespace train {

struct WelcomeInput {
  const JobContext& run;
  /// Of the worker that says hello; null: it does not belong to this node.
  const WorkerRanks* ranks = nullptr;
  Attempt attempt;
  std::string run_dir, staging_dir;
  int master_listen_fd = -1;                    // inherited by rank 0
  std::string build;                            // ours
  std::map<std::string, std::string> env = {};  // for a standby process
  bool numbering_begun = false;                 // WorkerSlot's
};

/// Make the answer. Refuse a rank that is not on this node, another attempt, a protocol that we do
/// not speak, and a program whose calls would be taken for those of the rank's program before.
Result<Welcome> make_welcome(const WorkerHello& hello, const WelcomeInput& input);

}  // namespace train
