// Lets the ranks compare their views before the first step of a pass over a split dataset, so that
// different files on two nodes, or another epoch on one rank, are an error now and not a hang at
// the last step. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace train::sdk {

/// One rank's view of the pass.
struct PassView {
  std::int64_t rows = 0;    // of the dataset
  std::string layout = {};  // data::digest_of its units
  std::string order = {};   // in words: how the epoch visits them
  std::int64_t batch_size = 1;
  double weight = 1;  // of its batch size, against those of the other ranks
  double speed = 0;   // rows per second of its loop, if the sizes follow from that; 0: not known
  bool drop_last = false;
  std::uint64_t epoch = 0;
  std::int64_t rows_consumed = 0;
};

/// Encode `view` in a few bytes.
std::string encode(const PassView& view);

/// Return the batch sizes by rank when all ranks see the same rows, epoch and cursor: those of the
/// views, divided anew by speed if all are known, else by weight. Otherwise return an error that
/// names what differs on which ranks. `views` are by rank, as encode() made them.
Result<std::vector<std::int64_t>> agree(const std::vector<std::string>& views);

}  // namespace train::sdk
