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

/// Where the pieces of a block are among the parts of a batch.
class PiecesInParts {
 public:
  /// Append the pieces to `parts`.
  PiecesInParts(const arrow::RecordBatchVector& pieces, arrow::RecordBatchVector& parts)
      : first_part_(static_cast<std::int64_t>(parts.size())) {
    std::int64_t rows = 0;
    for (const auto& piece : pieces) {
      rows += piece->num_rows();
      ends_.push_back(rows);
      parts.push_back(piece);
    }
  }
  /// Append rows [first, first + count) of the block, piece by piece.
  void append(std::int64_t first, std::int64_t count, std::vector<RowsOfPart>& out) const {
    auto end = std::upper_bound(ends_.begin(), ends_.end(), first);
    while (count > 0) {
      const std::int64_t begin = end == ends_.begin() ? 0 : *std::prev(end);
      const std::int64_t taken = std::min(count, *end - first);
      out.push_back({first_part_ + (end - ends_.begin()), first - begin, taken});
      first += taken;
      count -= taken;
      ++end;
    }
  }

 private:
  std::int64_t first_part_;
  std::vector<std::int64_t> ends_;  // rows of the block up to the end of each piece
};

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
  Planned upcoming = take_plan(index);
  PlannedBatch& planned = upcoming.batch;
  TRY(auto rows,
      plan_->reads_single_rows() ? gather_single_rows(planned.ranges) : gather(upcoming.ranges));
  if (meters_) meters_->gather().passed(rows->num_rows(), bytes_of_rows(*rows));
  return ReadBatch{std::move(rows), planned.valid_rows, planned.rows_consumed,
                   std::move(planned.ranges), planned.weight};
}

/// Return the plan of batch `index`. Also plan the next ones, for make_room() and expect().
BatchReader::Planned BatchReader::take_plan(std::int64_t index) {
  if (upcoming_.empty() || upcoming_index_ != index) {
    upcoming_.clear();
    upcoming_index_ = index;
    plan_ahead(index + 1);
  }
  Planned planned = std::move(upcoming_.front());
  upcoming_.pop_front();
  ++upcoming_index_;
  plan_ahead(upcoming_index_ + batches_ahead(*source_, planned.batch));
  upcoming_blocks_.clear();
  if (!upcoming_.empty()) {
    for (const RangeInBlock& range : upcoming_.front().ranges) upcoming_blocks_.insert(range.block);
  }
  return planned;
}

/// Plan the batches before `end` that are not planned yet.
void BatchReader::plan_ahead(std::int64_t end) {
  for (auto next = upcoming_index_ + static_cast<std::int64_t>(upcoming_.size());
       next < std::min(end, plan_->batches()); ++next) {
    Planned planned{.batch = plan_->batch(next), .ranges = {}};
    if (source_->is_far()) expect(planned.batch);
    if (!plan_->reads_single_rows()) planned.ranges = cut_at_blocks(planned.batch.ranges);
    upcoming_.push_back(std::move(planned));
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

std::vector<BatchReader::RangeInBlock> BatchReader::cut_at_blocks(
    const std::vector<RowRange>& ranges) const {
  std::vector<RangeInBlock> cut;
  cut.reserve(ranges.size());
  UnitBlock block{.unit = -1};  // that of the range before: neighbours are mostly from one
  for (RowRange range : ranges) {
    while (range.count > 0) {
      if (range.unit != block.unit || range.first < block.first ||
          range.first >= block.first + block.rows) {
        const Block of_row = plan_->block_of(range.unit, range.first);
        block = {range.unit, of_row.number, of_row.first, of_row.rows};
      }
      const std::int64_t count = std::min(range.count, block.first + block.rows - range.first);
      cut.push_back({{range.unit, range.first, count}, block});
      range.first += count;
      range.count -= count;
    }
  }
  return cut;
}

/// Return how many rows a unit should be decoded by. Rows that are picked one by one are decoded in
/// small pieces, which stay in the processor's cache until they are complete. Rows that are handed
/// on as they are come in whole blocks, so that a batch is a part of one of them.
std::int64_t BatchReader::rows_at_once(const UnitBlock& block) const {
  constexpr double kPieceBytes = 512 << 10;
  const OrderSpec& order = plan_->order().spec();
  const bool picked = order.lanes > 1 || order.shuffle == Shuffle::Rows;
  if (!picked) return block.rows;
  const double row_bytes = static_cast<double>(source_->decoded_bytes()) /
                           static_cast<double>(std::max<std::int64_t>(1, source_->total_rows()));
  const double rows = std::max(1.0, kPieceBytes / std::max(1e-3, row_bytes));
  return static_cast<std::int64_t>(std::min(rows, 1e9));
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

Result<BatchReader::Pieces> BatchReader::block(const UnitBlock& block) {
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

Result<BatchReader::Pieces> BatchReader::decode(const UnitBlock& block) {
  const DatasetMeters::Working decoding(meters_.get(), &DatasetMeters::decode);
  TRY(OpenUnit* const open, unit_before(block));
  auto decoded = [&]() -> Result<Pieces> {
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

Result<BatchReader::Pieces> BatchReader::next_of(OpenUnit& open, std::int64_t rows) {
  TRY(auto decoded, open.stream->pieces(rows));
  for (const Rows& piece : decoded) count_decoded(*piece);
  return std::make_shared<const std::vector<Rows>>(std::move(decoded));
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
    TRY(auto stream, source_->open(block.unit, rows_at_once(block)));
    open_units_.push_front({.unit = block.unit, .next_row = 0, .stream = std::move(stream)});
  } else {
    open_units_.splice(open_units_.begin(), open_units_, best);
  }
  return &open_units_.front();
}

/// Gather rows whose ranges each lie within one block.
Result<BatchReader::Rows> BatchReader::gather(const std::vector<RangeInBlock>& ranges) {
  // Visit each block once, and open blocks first: if all lanes change their block in one batch, no
  // block is dropped before it is read.
  std::set<UnitBlock> wanted;
  for (const RangeInBlock& range : ranges) {
    if (&range == &ranges.front() || range.block != (&range - 1)->block) wanted.insert(range.block);
  }
  std::vector<UnitBlock> visits(wanted.begin(), wanted.end());
  std::stable_partition(visits.begin(), visits.end(),
                        [&](const UnitBlock& block) { return place_of_.contains(block); });
  arrow::RecordBatchVector parts;
  std::map<UnitBlock, PiecesInParts> pieces_of;
  for (const UnitBlock& visit : visits) {
    TRY(const auto pieces, block(visit));
    pieces_of.emplace(visit, PiecesInParts(*pieces, parts));
  }
  std::vector<RowsOfPart> of_parts;
  of_parts.reserve(ranges.size());
  const RangeInBlock* before = nullptr;
  const PiecesInParts* pieces = nullptr;
  for (const RangeInBlock& range : ranges) {
    if (before == nullptr || range.block != before->block) pieces = &pieces_of.at(range.block);
    before = &range;
    pieces->append(range.range.first - range.block.first, range.range.count, of_parts);
  }
  if (of_parts.size() == 1) {
    const RowsOfPart& all = of_parts.front();
    return parts[static_cast<std::size_t>(all.part)]->Slice(all.first, all.count);
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
