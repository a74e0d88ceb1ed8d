#include "lib/data/mix_reader.h"

#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include "lib/data/arrow_error.h"
#include "lib/data/row_gatherer.h"
#include "lib/progress/dataset_meters.h"

namespace train::data {
namespace {

/// Parts of a batch, and which of their rows it has in which order.
struct Gathering {
  arrow::RecordBatchVector parts;
  std::vector<RowsOfPart> rows;
};

/// Say what the columns of two datasets differ in.
Error different_columns(const MixSource& one, const arrow::Schema& first, const MixSource& other,
                        const arrow::Schema& second) {
  return Error{Errc::InvalidArgument,
               fmt::format("its datasets have different columns: '{}' has {}, and '{}' has {}",
                           one.name, first.ToString(), other.name, second.ToString()),
               "select the same `columns`, and let the maps make the same types"};
}

void append(std::vector<RowsOfPart>& rows, std::size_t part, std::int64_t first,
            std::int64_t count) {
  if (count > 0) rows.push_back({static_cast<std::int64_t>(part), first, count});
}

}  // namespace

std::uint64_t epoch_of_pass(std::uint64_t mix_epoch, std::int64_t pass) {
  return pass == 0 ? mix_epoch : mix(mix_epoch, static_cast<std::uint64_t>(pass));
}

MixReader::MixReader(std::vector<MixSource> sources, std::shared_ptr<const MixPlan> plan,
                     std::uint64_t epoch, std::shared_ptr<DatasetMeters> meters)
    : sources_(std::move(sources)),
      plan_(std::move(plan)),
      epoch_(epoch),
      meters_(std::move(meters)),
      passes_(sources_.size()) {}

Result<ReadBatch> MixReader::read_part(const MixPart& part, std::int64_t index) {
  const auto at = static_cast<std::size_t>(part.source);
  const MixSource& source = sources_[at];
  const std::uint64_t epoch = epoch_of_pass(epoch_, part.pass);
  Pass& pass = passes_[at];
  if (pass.pass != part.pass) {
    auto plan = std::make_shared<MixPassPlan>(plan_, part.source, part.pass,
                                              RowOrder(source.layout, source.order, epoch));
    pass = {part.pass, std::make_unique<BatchReader>(source.rows, std::move(plan), meters_)};
  }
  auto batch = pass.reader->read(index);
  if (batch && source.map) batch = source.map(std::move(*batch), epoch);
  if (batch.has_error())
    return std::move(batch).error().with_context(fmt::format("dataset '{}'", source.name));
  return batch;
}

Result<ReadBatch> MixReader::read(std::int64_t index) {
  const MixedStep step = plan_->step(index);
  Gathering gathering;
  std::vector<std::int64_t> valid;  // of each part: a map may have left rows out
  for (const MixPart& part : step.parts) {
    TRY(ReadBatch batch, read_part(part, index));
    if (!gathering.parts.empty() &&
        !gathering.parts.front()->schema()->Equals(*batch.rows->schema())) {
      return different_columns(sources_[static_cast<std::size_t>(step.parts.front().source)],
                               *gathering.parts.front()->schema(),
                               sources_[static_cast<std::size_t>(part.source)],
                               *batch.rows->schema());
    }
    valid.push_back(batch.valid_rows);
    gathering.parts.push_back(std::move(batch.rows));
  }
  // Rows that were left out, and repeats in their place, come last.
  std::vector<RowsOfPart> last;
  std::vector<std::int64_t> taken(step.parts.size(), 0);
  std::int64_t valid_rows = 0;
  for (const MixedRows& rows : step.rows) {
    const std::int64_t first = taken[rows.part];
    taken[rows.part] += rows.count;
    const std::int64_t good = std::clamp<std::int64_t>(valid[rows.part] - first, 0, rows.count);
    append(gathering.rows, rows.part, first, good);
    append(last, rows.part, first + good, rows.count - good);
    valid_rows += good;
  }
  gathering.rows.insert(gathering.rows.end(), last.begin(), last.end());
  for (std::int64_t i = 0; i < step.repeats; ++i)
    append(gathering.rows, static_cast<std::size_t>(gathering.rows.front().part),
           gathering.rows.front().first, 1);
  const DatasetMeters::Working gathering_rows(meters_.get(), &DatasetMeters::gather);
  ARROW_TRY(auto rows, "cannot gather the rows of a batch",
            gather_rows(gathering.parts, gathering.rows));
  return ReadBatch{
      std::move(rows), std::min(valid_rows, step.valid_rows), step.rows_consumed, {}, step.weight};
}

}  // namespace train::data
