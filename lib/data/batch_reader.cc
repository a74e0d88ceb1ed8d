#include "lib/data/batch_reader.h"

#include <arrow/record_batch.h>

#include <algorithm>

#include "lib/data/arrow_error.h"
#include "lib/data/row_bytes.h"
#include "lib/data/row_gatherer.h"
#include "lib/progress/dataset_meters.h"

namespace train::data {

static constexpr std::string_view kGathering = "cannot gather the rows of a batch";

namespace {

/// Return how many batches like this one are planned ahead of it: their bytes are fetched before
/// they are asked for.
std::int64_t batches_ahead(const RowSource& source, const PlannedBatch& batch) {
  constexpr double kBytesAhead = 32 << 20;
  constexpr double kBatchesMax = 64;
  if (!source.is_far()) return 1;
  double rows = 0;
  for (const RowRange& range : batch.ranges) rows += static_cast<double>(range.count);
  const double bytes = rows * static_cast<double>(source.decoded_bytes()) /
                       static_cast<double>(std::max<std::int64_t>(1, source.total_rows()));
  return static_cast<std::int64_t>(
      std::clamp(kBytesAhead / std::max(1.0, bytes), 1.0, kBatchesMax));
}

/// Return the rows of each unit, in the order of the ranges.
std::map<std::int64_t, std::vector<std::int64_t>> rows_of_units(
    const std::vector<RowRange>& ranges) {
  std::map<std::int64_t, std::vector<std::int64_t>> rows_of_unit;
  for (const RowRange& range : ranges) {
    auto& rows = rows_of_unit[range.unit];
    for (std::int64_t row = range.first; row < range.first + range.count; ++row)
      rows.push_back(row);
  }
  return rows_of_unit;
}

}  // namespace

BatchReader::BatchReader(std::shared_ptr<const RowSource> source,
                         std::shared_ptr<const ReadPlan> plan,
                         std::shared_ptr<DatasetMeters> meters)
    : source_(std::move(source)),
      plan_(std::move(plan)),
      meters_(std::move(meters)),
      open_max_(static_cast<std::size_t>(std::max<std::int64_t>(1, plan_->open_blocks()))) {}

BatchReader::~BatchReader() {
  if (source_ != nullptr) source_->expect_nothing();
}

Result<ReadBatch> BatchReader::read(std::int64_t index) {
  const DatasetMeters::Working gathering(meters_.get(), &DatasetMeters::gather);
  PlannedBatch planned = take_plan(index);
  TRY(auto rows, plan_->reads_single_rows() ? gather_single_rows(planned.ranges)
                                            : gather(cut_at_blocks(planned.ranges)));
  if (meters_) meters_->gather().passed(rows->num_rows(), bytes_of_rows(*rows));
  return ReadBatch{std::move(rows), planned.valid_rows, planned.rows_consumed,
                   std::move(planned.ranges)};
}

/// Return the plan of batch `index`. Also plan the next ones, for make_room() and expect().
PlannedBatch BatchReader::take_plan(std::int64_t index) {
  if (upcoming_.empty() || upcoming_index_ != index) {
    upcoming_.clear();
    upcoming_index_ = index;
    plan_ahead(index + 1);
  }
  PlannedBatch planned = std::move(upcoming_.front());
  upcoming_.pop_front();
  ++upcoming_index_;
  plan_ahead(upcoming_index_ + batches_ahead(*source_, planned));
  upcoming_blocks_.clear();
  if (!upcoming_.empty() && !plan_->reads_single_rows()) {
    for (const RowRange& range : cut_at_blocks(upcoming_.front().ranges))
      upcoming_blocks_.insert(block_of(range));
  }
  return planned;
}

/// Plan the batches before `end` that are not planned yet.
void BatchReader::plan_ahead(std::int64_t end) {
  for (auto next = upcoming_index_ + static_cast<std::int64_t>(upcoming_.size());
       next < std::min(end, plan_->batches()); ++next) {
    upcoming_.push_back(plan_->batch(next));
    if (source_->is_far()) expect(upcoming_.back());
  }
}

/// Let the source fetch what a later batch needs.
void BatchReader::expect(const PlannedBatch& batch) {
  if (plan_->reads_single_rows()) {
    for (const auto& [unit, rows] : rows_of_units(batch.ranges)) source_->expect_rows(unit, rows);
    return;
  }
  for (const RowRange& range : batch.ranges) {
    if (expected_.insert(range.unit).second) source_->expect(range.unit);
  }
}

std::int64_t BatchReader::rows_of(std::int64_t unit) const {
  return source_->unit_rows()[static_cast<std::size_t>(unit)];
}

/// Return the block of a range that lies within one.
BatchReader::UnitBlock BatchReader::block_of(const RowRange& range) const {
  const Block block = plan_->block_of(range.unit, range.first);
  return {range.unit, block.number, block.first, block.rows};
}

std::vector<RowRange> BatchReader::cut_at_blocks(const std::vector<RowRange>& ranges) const {
  std::vector<RowRange> cut;
  cut.reserve(ranges.size());
  for (RowRange range : ranges) {
    while (range.count > 0) {
      const Block block = plan_->block_of(range.unit, range.first);
      const std::int64_t count = std::min(range.count, block.first + block.rows - range.first);
      cut.push_back({range.unit, range.first, count});
      range.first += count;
      range.count -= count;
    }
  }
  return cut;
}

/// Make room for a block before it is decoded. What the next batch needs of the blocks of this one
/// stays: to decode it again would mean to read its unit from the beginning. That is at most a
/// block a lane.
void BatchReader::make_room() {
  auto open = open_blocks_.rbegin();
  while (open_blocks_.size() >= open_max_ && open != open_blocks_.rend()) {
    if (upcoming_blocks_.contains(open->first)) {
      ++open;
      continue;
    }
    place_of_.erase(open->first);
    open = std::make_reverse_iterator(open_blocks_.erase(std::next(open).base()));
  }
}

Result<BatchReader::Rows> BatchReader::block(const UnitBlock& block) {
  if (const auto found = place_of_.find(block); found != place_of_.end()) {
    open_blocks_.splice(open_blocks_.begin(), open_blocks_, found->second);
    return found->second->second;
  }
  make_room();
  TRY(auto rows, decode(block));
  if (open_blocks_.size() < open_max_ || upcoming_blocks_.contains(block)) {
    open_blocks_.emplace_front(block, rows);
    place_of_[block] = open_blocks_.begin();
  }
  return rows;
}

Result<BatchReader::Rows> BatchReader::decode(const UnitBlock& block) {
  const DatasetMeters::Working decoding(meters_.get(), &DatasetMeters::decode);
  TRY(OpenUnit* const open, unit_before(block));
  auto decoded = [&]() -> Result<Rows> {
    while (open->next_row < block.first) {
      const Block passed = plan_->block_of(block.unit, open->next_row);
      TRY_VOID(next_of(*open, passed.rows));
      open->next_row += passed.rows;
    }
    return next_of(*open, block.rows);
  }();
  open->next_row = block.first + block.rows;
  if (decoded.has_error() || open->next_row == rows_of(block.unit)) open_units_.pop_front();
  return decoded;
}

Result<BatchReader::Rows> BatchReader::next_of(OpenUnit& open, std::int64_t rows) {
  TRY(auto decoded, open.stream->next(rows));
  count_decoded(*decoded);
  return decoded;
}

void BatchReader::count_decoded(const arrow::RecordBatch& rows) {
  if (meters_) meters_->rows_of_unit().passed(rows.num_rows(), bytes_of_rows(rows));
}

/// Return the stream of the block's unit that is at the block's first row, or before it by as
/// little as possible, as the first of the open ones.
Result<BatchReader::OpenUnit*> BatchReader::unit_before(const UnitBlock& block) {
  auto best = open_units_.end();
  for (auto open = open_units_.begin(); open != open_units_.end(); ++open) {
    if (open->unit != block.unit || open->next_row > block.first) continue;
    if (best == open_units_.end() || open->next_row > best->next_row) best = open;
  }
  if (best == open_units_.end()) {
    // Each lane may end a unit and begin another in the same batch.
    if (open_units_.size() >= 2 * open_max_) open_units_.pop_back();
    TRY(auto stream, source_->open(block.unit, block.rows));
    open_units_.push_front({.unit = block.unit, .next_row = 0, .stream = std::move(stream)});
  } else {
    open_units_.splice(open_units_.begin(), open_units_, best);
  }
  return &open_units_.front();
}

/// Gather rows whose ranges each lie within one block.
Result<BatchReader::Rows> BatchReader::gather(const std::vector<RowRange>& ranges) {
  if (ranges.size() == 1) {
    const UnitBlock wanted = block_of(ranges.front());
    TRY(const auto rows, block(wanted));
    return rows->Slice(ranges.front().first - wanted.first, ranges.front().count);
  }
  // Visit each block once, and open blocks first: if all lanes change their block in one batch, no
  // block is dropped before it is read.
  std::map<UnitBlock, std::int64_t> part_of;
  for (const RowRange& range : ranges) part_of.try_emplace(block_of(range), 0);
  std::vector<UnitBlock> visits;
  for (const auto& [wanted, part] : part_of) visits.push_back(wanted);
  std::stable_partition(visits.begin(), visits.end(),
                        [&](const UnitBlock& wanted) { return place_of_.contains(wanted); });
  arrow::RecordBatchVector parts;
  for (const UnitBlock& wanted : visits) {
    TRY(auto rows, block(wanted));
    part_of[wanted] = static_cast<std::int64_t>(parts.size());
    parts.push_back(std::move(rows));
  }
  std::vector<RowsOfPart> of_parts;
  of_parts.reserve(ranges.size());
  for (const RowRange& range : ranges) {
    const UnitBlock of_range = block_of(range);
    of_parts.push_back({part_of[of_range], range.first - of_range.first, range.count});
  }
  ARROW_TRY(auto rows, kGathering, gather_rows(parts, of_parts));
  return rows;
}

/// Gather rows that are read one by one.
Result<BatchReader::Rows> BatchReader::gather_single_rows(const std::vector<RowRange>& ranges) {
  arrow::RecordBatchVector parts;
  std::map<std::int64_t, RowsOfPart> next;  // of each unit
  for (const auto& [unit, rows] : rows_of_units(ranges)) {
    const DatasetMeters::Working decoding(meters_.get(), &DatasetMeters::decode);
    TRY(auto part, source_->read_rows(unit, rows));
    count_decoded(*part);
    next[unit] = {.part = static_cast<std::int64_t>(parts.size())};
    parts.push_back(std::move(part));
  }
  std::vector<RowsOfPart> of_parts;
  for (const RowRange& range : ranges) {
    RowsOfPart& at = next[range.unit];
    at.count = range.count;
    of_parts.push_back(at);
    at.first += range.count;
  }
  ARROW_TRY(auto rows, kGathering, gather_rows(parts, of_parts));
  return rows;
}

}  // namespace train::data
