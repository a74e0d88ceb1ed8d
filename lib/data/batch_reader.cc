#include "lib/data/batch_reader.h"

#include <arrow/array.h>
#include <arrow/buffer.h>
#include <arrow/compute/api_vector.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>
#include <map>

#include "lib/data/arrow_error.h"

namespace train::data {
namespace {

/// The rows that a batch needs from one row group, and their positions in the batch.
struct Wanted {
  std::vector<std::int64_t> rows;
  std::vector<std::int64_t> positions;
};

std::shared_ptr<arrow::Array> index_array(const std::vector<std::int64_t>& indices) {
  // a view: the array must not outlive the vector
  return std::make_shared<arrow::Int64Array>(static_cast<std::int64_t>(indices.size()),
                                             arrow::Buffer::Wrap(indices));
}

arrow::Result<std::shared_ptr<arrow::RecordBatch>> take(
    const std::shared_ptr<arrow::RecordBatch>& rows, const std::vector<std::int64_t>& indices) {
  const auto array = index_array(indices);
  arrow::ArrayVector columns;
  for (const auto& column : rows->columns()) {
    ARROW_ASSIGN_OR_RAISE(
        auto taken,
        arrow::compute::Take(*column, *array, arrow::compute::TakeOptions::NoBoundsCheck()));
    columns.push_back(std::move(taken));
  }
  return arrow::RecordBatch::Make(rows->schema(), array->length(), std::move(columns));
}

}  // namespace

BatchReader::BatchReader(std::shared_ptr<const RowSource> source, ShardPlan plan)
    : source_(std::move(source)), plan_(std::move(plan)) {}

Result<ReadBatch> BatchReader::read(std::int64_t index) {
  PlannedBatch planned = take_plan(index);
  TRY(auto rows, gather(planned.ranges));
  return ReadBatch{std::move(rows), planned.valid_rows, planned.rows_consumed,
                   std::move(planned.ranges)};
}

/// Return the plan of batch `index`. Also plan the next batch, for make_room().
PlannedBatch BatchReader::take_plan(std::int64_t index) {
  PlannedBatch planned =
      upcoming_ && upcoming_index_ == index ? std::move(*upcoming_) : plan_.batch(index);
  upcoming_.reset();
  upcoming_groups_.clear();
  if (index + 1 < plan_.batches()) {
    upcoming_ = plan_.batch(index + 1);
    upcoming_index_ = index + 1;
    for (const RowRange& range : upcoming_->ranges) upcoming_groups_.insert(range.group);
  }
  return planned;
}

bool BatchReader::is_open(std::int64_t index) const {
  return std::any_of(open_groups_.begin(), open_groups_.end(),
                     [&](const auto& open) { return open.first == index; });
}

/// Make room for a group before it is decoded, so that the number of groups never exceeds the
/// limit.
void BatchReader::make_room() {
  while (static_cast<std::int64_t>(open_groups_.size()) >=
         std::max<std::int64_t>(1, plan_.open_groups())) {
    const auto done =
        std::find_if(open_groups_.rbegin(), open_groups_.rend(),
                     [&](const auto& open) { return upcoming_groups_.count(open.first) == 0; });
    open_groups_.erase(done == open_groups_.rend() ? std::prev(open_groups_.end())
                                                   : std::prev(done.base()));
  }
}

Result<BatchReader::Group> BatchReader::group(std::int64_t index) {
  const auto found = std::find_if(open_groups_.begin(), open_groups_.end(),
                                  [&](const auto& open) { return open.first == index; });
  if (found != open_groups_.end()) {
    open_groups_.splice(open_groups_.begin(), open_groups_, found);
    return found->second;
  }
  make_room();
  TRY(auto rows, source_->read(index));
  open_groups_.emplace_front(index, rows);
  return rows;
}

Result<BatchReader::Group> BatchReader::gather(const std::vector<RowRange>& ranges) {
  if (ranges.size() == 1) {
    TRY(const auto rows, group(ranges.front().group));
    return rows->Slice(ranges.front().first, ranges.front().count);
  }
  std::map<std::int64_t, Wanted> wanted;
  std::int64_t position = 0;
  for (const RowRange& range : ranges) {
    Wanted& of_group = wanted[range.group];
    for (std::int64_t row = range.first; row < range.first + range.count; ++row) {
      of_group.rows.push_back(row);
      of_group.positions.push_back(position++);
    }
  }

  // Visit each group once, and open groups first: if all lanes change their group in one batch, no
  // group is dropped before it is read.
  std::vector<std::int64_t> visits;
  for (const auto& [index, of_group] : wanted) visits.push_back(index);
  std::stable_partition(visits.begin(), visits.end(),
                        [&](std::int64_t index) { return is_open(index); });

  static constexpr std::string_view kDoing = "cannot gather the rows of a batch";
  arrow::RecordBatchVector parts;
  // For each row of the batch, its index in the concatenated parts.
  std::vector<std::int64_t> order(static_cast<std::size_t>(position));
  std::int64_t row_of_parts = 0;
  for (const std::int64_t index : visits) {
    const Wanted& of_group = wanted[index];
    TRY(const auto rows, group(index));
    ARROW_TRY(auto part, kDoing, take(rows, of_group.rows));
    parts.push_back(std::move(part));
    for (const std::int64_t at : of_group.positions)
      order[static_cast<std::size_t>(at)] = row_of_parts++;
  }
  if (parts.size() == 1) return parts.front();
  ARROW_TRY(auto joined, kDoing, arrow::ConcatenateRecordBatches(parts));
  if (std::is_sorted(order.begin(), order.end())) return joined;
  ARROW_TRY(auto ordered, kDoing, take(joined, order));
  return ordered;
}

}  // namespace train::data
