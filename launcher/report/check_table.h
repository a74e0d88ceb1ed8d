// The table of `train-run check`: what a job would stumble over on each node, and what to do about
// it. Pure. The nodes' words may be anything.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/report/node_table.h"

namespace train {

/// What the probe on a node has found out, with the names of nodes for their ranks.
struct NodeProbe {
  std::string error = {};  // it has met nobody; then the rest is missing
  std::vector<std::string> absent = {}, unreachable = {}, storage_missing = {};
  std::optional<double> clock_ms = {}, clock_within_ms = {};  // against the first node's clock
  std::optional<double> sum_ms = {};
  std::int64_t locked_memory = -1;  // −1: no limit
  std::string storage_error = {};
};

struct CheckedNode {
  NodeRow node;
  std::optional<NodeProbe> probe = {};
};

struct CheckContext {
  std::string build;         // of this program
  bool use_gpu = false;      // the job wants GPUs
  std::string storage;       // the folder that all nodes should see; empty: none is checked
  std::string no_probe;      // why the probes did not run; empty: they did
  std::string trouble = {};  // of the run of the probes, though some have said something
};

struct CheckCell {
  enum class Kind { Good, Bad, Unknown };
  Kind kind = Kind::Unknown;
  std::string shown = "-";
  std::string what = {}, what_to_do = {};  // if it is Bad
};
struct CheckTable {
  std::vector<std::string> checks;  // the columns
  struct Row {
    std::string node;
    std::vector<CheckCell> cells;
  };
  std::vector<Row> rows;
  std::string no_probe;

  bool all_good() const;
};

CheckTable check_table(const std::vector<CheckedNode>& nodes, const CheckContext& context);

/// Return the table, and below it what to do for each cell that is Bad.
std::string checks_text(const CheckTable& table);
/// Return one line of JSON: {"good": …, "nodes": [{"node": …, "checks": {…}}]}.
std::string checks_json(const CheckTable& table);

}  // namespace train
