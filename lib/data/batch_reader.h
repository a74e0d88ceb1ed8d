// A BatchReader carries out a ReadPlan: it gathers the rows of each planned batch into one record
// batch. Between two batches it holds at most ReadPlan::open_blocks() decoded blocks, or those
// that the next batch needs, and as many units half read. To make room, it drops the least recently
// used block that the next batch does not need, so that each block is decoded once per pass. One
// thread uses a reader at a time.
#pragma once

#include <deque>
#include <list>
#include <map>
#include <set>

#include "lib/data/plan/shard_plan.h"
#include "lib/data/row_source.h"

namespace train {
class DatasetMeters;  // lib/progress
}

namespace train::data {

struct ReadBatch {
  std::shared_ptr<arrow::RecordBatch> rows;
  std::int64_t valid_rows = 0;
  std::int64_t rows_consumed = 0;
  std::vector<RowRange> ranges = {};  // where the rows are from, in their order
  double weight = 1;                  // as StepDivision::Slice
};

/// Whatever gives the batches of a pass.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  virtual Result<ReadBatch> read(std::int64_t index) = 0;
};

class BatchReader final : public BatchSource {
 public:
  /// `source` is shared with the other passes over the same dataset.
  /// `meters` count what it does; null: nobody does.
  BatchReader(std::shared_ptr<const RowSource> source, std::shared_ptr<const ReadPlan> plan,
              std::shared_ptr<DatasetMeters> meters = {});
  BatchReader(std::shared_ptr<const RowSource> source, ShardPlan plan,
              std::shared_ptr<DatasetMeters> meters = {})
      : BatchReader(std::move(source), std::make_shared<ShardPlan>(std::move(plan)),
                    std::move(meters)) {}
  ~BatchReader() override;
  BatchReader(BatchReader&&) = default;

  /// Return batch `index` of the plan. A batch of consecutive rows of one block is a view; any
  /// other is a copy.
  Result<ReadBatch> read(std::int64_t index) override;

 private:
  using Rows = std::shared_ptr<arrow::RecordBatch>;
  using Pieces = std::shared_ptr<const std::vector<Rows>>;  // the rows of a block, as decoded
  struct UnitBlock {
    std::int64_t unit = 0;
    std::int64_t number = 0;  // of the block in its unit
    std::int64_t first = 0;   // its first row in the unit
    std::int64_t rows = 0;
    auto operator<=>(const UnitBlock&) const = default;
  };
  struct RangeInBlock {
    RowRange range;
    UnitBlock block;
  };
  struct Planned {
    PlannedBatch batch;
    std::vector<RangeInBlock> ranges;  // of the batch, if it is read by blocks
  };
  struct OpenUnit {
    std::int64_t unit = 0;
    std::int64_t next_row = 0;  // of the unit
    std::unique_ptr<UnitStream> stream;
  };

  Planned take_plan(std::int64_t index);
  void plan_ahead(std::int64_t end);
  void expect(const PlannedBatch& batch);
  std::int64_t rows_of(std::int64_t unit) const;
  std::vector<RangeInBlock> cut_at_blocks(const std::vector<RowRange>& ranges) const;
  std::int64_t rows_at_once(const UnitBlock& block) const;
  void make_room();
  Result<Pieces> block(const UnitBlock& block);
  Result<Pieces> decode(const UnitBlock& block);
  Result<Pieces> next_of(OpenUnit& open, std::int64_t rows);
  void count_decoded(const arrow::RecordBatch& rows);
  Result<OpenUnit*> unit_before(const UnitBlock& block);
  Result<Rows> gather(const std::vector<RangeInBlock>& ranges);
  Result<Rows> gather_single_rows(const std::vector<RowRange>& ranges);

  std::shared_ptr<const RowSource> source_;
  std::shared_ptr<const ReadPlan> plan_;
  std::shared_ptr<DatasetMeters> meters_;
  std::size_t open_max_;
  std::deque<Planned> upcoming_;         // the batches after the current one that are planned
  std::int64_t upcoming_index_ = 0;      // of the first of them
  std::set<UnitBlock> upcoming_blocks_;  // of the first of them
  std::set<std::int64_t> expected_;      // units that the source was told of
  using OpenBlocks = std::list<std::pair<UnitBlock, Pieces>>;
  OpenBlocks open_blocks_;  // most recently used first
  std::map<UnitBlock, OpenBlocks::iterator> place_of_;
  std::list<OpenUnit> open_units_;  // most recently used first
};

}  // namespace train::data
