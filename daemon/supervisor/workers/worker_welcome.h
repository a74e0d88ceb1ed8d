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
};

/// Make the answer. Refuse a rank that is not on this node, another attempt, and a protocol that we
/// do not speak.
Result<Welcome> make_welcome(const WorkerHello& hello, const WelcomeInput& input);

}  // namespace train
