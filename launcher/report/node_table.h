// The table of `train-run nodes`: what each node has and does. Pure. The nodes' words may be
// anything.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/model/labels.h"
#include "lib/model/node_sample.h"
#include "lib/model/offered_gpu.h"
#include "lib/model/pool_run.h"
#include "lib/model/resources.h"

namespace train {

/// What a node has told.
struct NodeRow {
  std::string address;  // as the user names it
  std::optional<Error> problem = {};
  bool answered = false;  // if not, only the address and the problem count
  std::string name = {}, build = {};
  std::string reached_at = {};              // the address of the connection; empty: none
  std::vector<std::string> addresses = {};  // its own
  Resources total = {}, free = {};
  bool draining = false;
  std::string draining_because = {};
  std::optional<NodeSample> sample = {};  // nothing: not told in time
  std::vector<GpuSample> gpus = {};
  Labels labels = {};
  std::vector<OfferedGpu> offered_gpus = {};
  std::vector<PoolRun> runs = {};  // that have something there or wait, in the order of their turns
};

/// Return what is wrong with a node, as a line shows it behind the node's address or name.
std::string problem_text(const NodeRow& row);
/// Return the table, one line a node, and below it what is wrong with nodes: "" for no rows.
/// `build`: of this program; nodes with another one are marked.
std::string nodes_text(const std::vector<NodeRow>& rows, const std::string& build);
/// Return one line of JSON: {"nodes": [...]}.
std::string nodes_json(const std::vector<NodeRow>& rows);

}  // namespace train
