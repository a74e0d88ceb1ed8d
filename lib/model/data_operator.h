// What the operators of a worker's datasets have done: those that read a file, change rows, and
// wait. Counters since the worker opened the dataset.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/ids.h"
#include "lib/model/fields.h"

namespace train {

/// A step on the way of a row, in the order of the way. Decode to Batch are the work of one thread,
/// which does one of them at a time.
enum class OperatorKind : std::uint8_t {
  Index,   // finds the files, and the units and rows in them; once
  Decode,  // reads and decodes units
  Filter,  // leaves rows out
  Gather,  // picks the rows of a batch
  Map,     // one map of the spec
  Batch,   // holds batches until the loop takes them
  Loop     // the training loop: all that it does between two batches
};

inline constexpr std::array<std::string_view, 7> kOperatorKinds{
    "index", "decode", "filter", "gather", "map", "batch", "loop"};

constexpr std::string_view to_string(OperatorKind kind) {
  return kOperatorKinds[static_cast<std::size_t>(kind)];
}

/// Operators of one worker that are told; further ones only in the worker itself.
inline constexpr std::size_t kDataOperatorsMax = 64;
inline constexpr std::size_t kDataNameBytesMax = 64;

struct DataOperator {
  std::string dataset = {};
  OperatorKind kind = OperatorKind::Index;
  std::string map = {};          // of Map: its name; a second one of that name has " (2)" behind it
  std::int64_t rows = 0;         // that it has passed on
  std::int64_t bytes = 0;        // of these
  std::int64_t busy_us = 0;      // at work
  std::int64_t input_us = 0;     // waited for rows
  std::int64_t room_us = 0;      // waited until somebody took rows
  std::int64_t queue_bytes = 0;  // that wait behind it now
  bool operator==(const DataOperator&) const = default;
  TRAIN_ARRAY(dataset, kind, map, rows, bytes, busy_us, input_us, room_us, queue_bytes)

  /// Return "decode" or "map normalize".
  std::string name() const {
    std::string text(to_string(kind));
    return kind == OperatorKind::Map ? text + " " + map : text;
  }
};

/// What one rank says.
struct RankData {
  Rank rank;
  std::vector<DataOperator> operators = {};
  bool operator==(const RankData&) const = default;
  TRAIN_ARRAY(rank, operators)
};

}  // namespace train
