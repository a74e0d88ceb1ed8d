// A BatchReader carries out a ShardPlan: it gathers the rows of each planned batch into one record
// batch. It holds at most ShardPlan::open_groups() decoded row groups. To make room, it drops the
// least recently used group that the next batch does not need, so that each group is decoded once
// per pass. One thread uses a reader at a time.
#pragma once

#include <list>
#include <optional>
#include <set>

#include "lib/data/row_source.h"
#include "lib/data/shard_plan.h"

namespace train::data {

struct ReadBatch {
  std::shared_ptr<arrow::RecordBatch> rows;
  std::int64_t valid_rows = 0;
  std::int64_t rows_consumed = 0;
  std::vector<RowRange> ranges = {};  // where the rows are from, in their order
};

class BatchReader {
 public:
  /// `source` is shared with the other passes over the same dataset.
  BatchReader(std::shared_ptr<const RowSource> source, ShardPlan plan);

  /// Return batch `index` of the plan. A batch of consecutive rows of one row group is a view; any
  /// other is a copy.
  Result<ReadBatch> read(std::int64_t index);

 private:
  using Group = std::shared_ptr<arrow::RecordBatch>;

  PlannedBatch take_plan(std::int64_t index);
  bool is_open(std::int64_t index) const;
  void make_room();
  Result<Group> group(std::int64_t index);
  Result<Group> gather(const std::vector<RowRange>& ranges);

  std::shared_ptr<const RowSource> source_;
  ShardPlan plan_;
  std::optional<PlannedBatch> upcoming_;  // the batch after the current one, if planned
  std::int64_t upcoming_index_ = -1;
  std::set<std::int64_t> upcoming_groups_;
  std::list<std::pair<std::int64_t, Group>> open_groups_;  // most recently used first
};

}  // namespace train::data
