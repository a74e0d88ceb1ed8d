// Decides which node runs how many workers, and with which ranks. Pure and total: every input has
// an answer.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/core/job_spec.h"
#include "lib/base/ids.h"
#include "lib/model/labels.h"
#include "lib/model/offered_gpu.h"

namespace train {

/// What one daemon offers: `total` is what the node has, `free` what this run may use of it now.
struct NodeCapacity {
  NodeId node;
  std::string name;
  Resources total;
  Resources free;
  bool draining = false;     // takes no new workers; the daemon then offers nothing as `free`
  std::string address = {};  // as the job names it: host:port
  Labels labels = {};
  std::vector<OfferedGpu> gpus = {};
  bool operator==(const NodeCapacity&) const = default;
};

/// Workers of a role beside the one that trains, on a node.
struct PlacedRole {
  int role = 0;  // scaling_config.other_roles[role - 1]
  Rank first_rank;
  int workers = 0;  // ranks first_rank … first_rank + workers - 1
  bool operator==(const PlacedRole&) const = default;
};

struct PlacedNode {
  NodeId node;
  NodeRank node_rank;  // in the order of the ranks
  Rank first_rank;
  /// Of the workers that train: ranks first_rank … first_rank + local_world_size - 1.
  int local_world_size = 0;
  std::vector<PlacedRole> others = {};  // by role
  bool operator==(const PlacedNode&) const = default;
};

/// What a dataset's ingest workers need.
struct IngestNeed {
  std::string dataset;
  IngestSpec spec;
};
/// Return the needs of the datasets that have ingest workers, by name.
std::vector<IngestNeed> ingest_needs(const JobSpec& spec);

/// Return whether the spec allows the dataset's ingest workers on the node. `has_ranks`: ranks are
/// there, too.
bool may_have(const NodeCapacity& node, const IngestNeed& need, bool has_ranks);

/// Return "2 to 8 ingest workers for train with CPU 1 each".
std::string describe(const IngestNeed& need);

/// A place for one of a dataset's ingest workers.
struct PlacedIngest {
  std::string dataset;
  std::int32_t slot = 0;  // from 1 on, within the dataset
  NodeId node;
  bool operator==(const PlacedIngest&) const = default;
};

/// The ranks of one of the other roles.
struct RoleRanks {
  int first = 0, workers = 0;
  bool operator==(const RoleRanks&) const = default;
};

struct Placement {
  int world_size = 0;             // of the workers that train; 0: does not fit
  std::vector<PlacedNode> nodes;  // by node rank
  std::string reason;             // why it does not fit, in words for the user
  bool never = false;             // would not fit even if everything were free: waiting is useless
  /// As many ingest workers as fit beside the ranks, by dataset and slot.
  std::vector<PlacedIngest> ingest = {};
  std::vector<RoleRanks> other_roles = {};  // as number_ranks() finds them in `nodes`
  bool operator==(const Placement&) const = default;
};

/// Return how many workers with this claim a node can take. An empty claim fits `max` times.
/// Workers that claim a part of a GPU have it from one GPU.
int workers_that_fit(const Resources& available, const Resources& claim, int max);

/// Place as many workers as fit on `nodes`, between min and max of `scaling.num_workers`. `nodes`
/// are in the order in which they were named, which is at first the order of node ranks. PACK fills
/// one node after the other, the roomiest first; nodes that can take all workers count as equally
/// roomy; with workers_per_node, a node gets exactly so many, or none. SPREAD gives the nodes one
/// worker each in turn. The STRICT forms insist on one node, or on one worker per node.
/// `expected_nodes`: how many daemons the job names; while fewer are known, nothing is "never".
/// `before`: where the previous attempt's workers were. If the strategy leaves a choice, those
/// nodes are preferred, and their ranks stay there. A new node takes the place of one that is gone,
/// so that caches, data shares and standby processes of the others stay useful.
/// `ingest`: place ingest workers, too, on the nodes of the ranks or on those that the spec names:
/// of each dataset its least number, then, as long as there is room, more of them, in turn on each
/// node. If the least number does not fit, there are fewer ranks, down to min.
/// Workers of other roles go to the nodes of those that train, in turn, and once these are full, to
/// others, except with STRICT_PACK. If they do not fit, there are fewer ranks, down to min.
/// Workers go only to nodes whose labels their selector accepts, and get only GPUs that
/// scaling_config.gpus names. A list of selectors has one for each worker, whatever its rank.
Placement place(const ScalingConfig& scaling, const std::vector<NodeCapacity>& nodes,
                std::size_t expected_nodes, const Placement& before = {},
                const std::vector<IngestNeed>& ingest = {});

/// Return the nodes as if nobody used any of what they have.
std::vector<NodeCapacity> all_free(std::vector<NodeCapacity> nodes);

/// Return how many of its least number of workers each node could have if it were free; nothing if
/// these nodes are too few even then.
std::map<NodeId, int> rooms_when_free(const ScalingConfig& scaling,
                                      const std::vector<NodeCapacity>& nodes);

/// Return how many workers `num_workers: auto` stands for on these nodes: one for each GPU that a
/// worker claims or, without GPUs, for each core, whoever has them now. placement_strategy counts:
/// STRICT_PACK means those of one node, STRICT_SPREAD one for each node.
int automatic_workers(const ScalingConfig& scaling, const std::vector<NodeCapacity>& nodes);

/// Return what the ingest workers on a node claim together.
Resources ingest_claim(const Placement& placement, NodeId node,
                       const std::vector<IngestNeed>& needs);

}  // namespace train
