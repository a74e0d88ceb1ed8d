// train-run data convert: writes the rows of a dataset anew, into files of equal numbers of rows.
#pragma once

#include <train/config.h>

#include <cstdint>
#include <optional>
#include <string>

#include "lib/base/result.h"

namespace train {

struct ConvertOptions {
  Value dataset = {};  // an entry as launcher/spec's datasets_json() makes it
  std::string to = {};
  std::int64_t rows_per_file = 0;
  std::optional<std::int64_t> shuffle = {};  // the seed
  std::int64_t window_bytes = 256 << 20;     // of rows that are mixed at a time
  std::string folder = {};
};

struct Converted {
  std::int64_t files = 0, rows = 0;
  std::int64_t files_before = 0;  // those of them that were there
  std::int64_t bytes = 0;         // of the files that were written
};

/// Convert, or go on with a conversion that was stopped. The same rows come out at the same places
/// however often it was.
Result<Converted> convert(const ConvertOptions& options);

}  // namespace train
