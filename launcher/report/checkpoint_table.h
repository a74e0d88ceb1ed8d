// Prints the checkpoints of a run as `train-run checkpoint list` shows them: a table for people,
// JSON for programs. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/metrics.h"

namespace train {

struct CheckpointRow {
  std::uint64_t number = 0;
  std::string name = {};     // checkpoint_000003
  std::string path = {};     // its folder
  std::string error = {};    // why it cannot be used; if set, everything below is unknown
  std::string created = {};  // RFC 3339, UTC
  std::uint64_t bytes = 0;
  std::size_t files = 0;
  int world_size = 0;
  std::optional<std::int64_t> epoch = {};
  std::optional<double> score = {};
  Metrics metrics = {};         // the reported ones, overridden by those of its validation
  std::string validation = {};  // validated, failed, timeout; empty: not validated
  std::string validation_error = {};
  std::vector<std::string> nodes = {};  // whose disks hold its files; empty: its folder holds them
  bool latest = false, best = false;
};

struct CheckpointTable {
  std::string score_attribute = {};      // empty: none is configured
  std::vector<CheckpointRow> rows = {};  // oldest first
};

/// Return a heading and one line per checkpoint. The columns epoch and validation appear only if
/// some checkpoint has them, the score only if a score is configured.
std::string checkpoints_text(const CheckpointTable& table);
/// Return one array with an object per checkpoint, each on its own line. Unknown values are null.
std::string checkpoints_json(const CheckpointTable& table);

}  // namespace train
