// The checkpoints of a run as `train-run checkpoint list` shows them: a table for people, JSON for
// programs. Pure.
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

/// A heading and a line a checkpoint; the columns epoch and score only where there are such.
std::string checkpoints_text(const CheckpointTable& table);
/// One array with an object a checkpoint, a line each; what is unknown is null.
std::string checkpoints_json(const CheckpointTable& table);

/// "512 B", "1.2 MiB".
std::string size_text(std::uint64_t bytes);

}  // namespace train
