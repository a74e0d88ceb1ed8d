// Puts a batch together from the parts that ingest workers have read.
#pragma once

#include <vector>

#include "lib/data/batch_reader.h"
#include "lib/data/serve/part_reader.h"

namespace train::data {

/// `count` rows of a part, which come next in the batch.
struct RowsFromPart {
  std::size_t part = 0;
  std::int64_t count = 0;
};

struct JoinedRows {
  std::shared_ptr<arrow::RecordBatch> rows = {};
  std::int64_t valid_rows = 0;
  std::vector<RowError> bad = {};  // rows of the batch as it was planned, growing
};

/// Check what a peer says of a part of so many rows. Corrupt if it cannot be.
Result<Unit> check_part(const PartRows& part, std::int64_t rows);

/// Join checked parts, whose rows come in the order of `order`; `valid_rows` of them were planned
/// to be valid. Rows that are left out make room for repeats of others. A single part of which
/// nothing is left out is not copied. If flat maps have changed how many rows there are, the batch
/// has those of its valid rows only. Corrupt if the parts have different columns.
Result<JoinedRows> join_parts(const std::vector<const PartRows*>& parts,
                              const std::vector<RowsFromPart>& order, std::int64_t valid_rows);

}  // namespace train::data
