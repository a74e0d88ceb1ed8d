// Asks nodes what they have and do, for `train-run nodes`: attaches a run that claims nothing to
// each traind, hears what it offers, and detaches again. Also asks them whether a run's launcher is
// connected to them. It starts nothing on the nodes, except that a host that is reached by ssh may
// start its user's traind for the answer.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "launcher/cluster/links/dialler.h"
#include "launcher/core/failover_vote.h"
#include "launcher/core/job_spec.h"
#include "launcher/report/node_table.h"
#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/net/tls_files.h"
#include "lib/wire/daemon_messages.h"

namespace train {

/// Ask each node of the cluster, all at a time, and wait about `limit` for each step. One that does
/// not answer has a `problem`. A cluster without nodes: this user's own traind here. Errors:
/// Permission for a token or certificates that cannot be used, or for nodes that need some.
/// `only_offers`: do not wait for what they are doing now. Blocks.
Result<std::vector<NodeRow>> survey_nodes(ClusterConfig cluster, const std::string& build,
                                          Duration limit, bool only_offers = false);

/// Ask these nodes. `end`: what they are told at the end.
std::vector<NodeRow> ask_nodes(std::vector<std::unique_ptr<Dialler>>& diallers, const TlsFiles& tls,
                               const std::string& build, Duration limit, bool only_offers = false,
                               const DetachRun& end = {});

/// Ask these nodes whether the launcher of a run is connected to them.
std::vector<FailoverVoter> ask_for_launcher(std::vector<std::unique_ptr<Dialler>>& diallers,
                                            const TlsFiles& tls, const std::string& build,
                                            const std::string& run_id, Duration limit);

/// Tell the nodes of the cluster, as far as they can be reached, how a run has ended that has not
/// told them itself, because it could not begin. It matters to a traind that ends with its run and
/// has no launcher. Blocks.
void tell_run_end(const ClusterConfig& cluster, const std::string& build, Duration limit,
                  int exit_code);

}  // namespace train
