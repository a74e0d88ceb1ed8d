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
  std::string error = {};    // why it cannot be used; then all below is unknown
  std::string created = {};  // RFC 3339, UTC
  std::uint64_t bytes = 0;
  std::size_t files = 0;
  int world_size = 0;
  std::optional<std::int64_t> epoch = {};
  std::optional<double> score = {};
  Metrics metrics = {};         // with those of its validation over the reported ones
  std::string validation = {};  // validated, failed, timeout; empty: it was not
  std::string validation_error = {};
  std::vector<std::string> nodes = {};  // on whose disks its files are; empty: in its folder
  bool latest = false, best = false;
};

struct CheckpointTable {
  std::string score_attribute = {};      // empty: none is asked for
  std::vector<CheckpointRow> rows = {};  // oldest first
};

/// Return a heading and one line per checkpoint. The columns epoch and score appear only where
/// checkpoints have them.
std::string checkpoints_text(const CheckpointTable& table);
/// Return one array with an object per checkpoint, each on a line of its own. What is unknown is
/// null.
std::string checkpoints_json(const CheckpointTable& table);

/// Return "512 B", "1.2 MiB".
std::string size_text(std::uint64_t bytes);

}  // namespace train
