// The table of `train-run queue`: the runs that share a pool of nodes, and whose turn it is. Pure.
// The nodes' words may be anything.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/report/node_table.h"

namespace train {

/// Return the table, one line a run: those that have workers, then those that wait, in the order of
/// their turns. Below it are nodes that do not answer. `now_ms`: the time, as QueuePlace::since_ms.
std::string queue_text(const std::vector<NodeRow>& rows, std::int64_t now_ms);
/// Return one line of JSON: {"runs": [...], "unreachable": [...]}.
std::string queue_json(const std::vector<NodeRow>& rows, std::int64_t now_ms);

}  // namespace train
