#include "lib/data/unit_stream.h"

#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>

#include "lib/data/arrow_error.h"

namespace train::data {
namespace {

using Rows = std::shared_ptr<arrow::RecordBatch>;

class DecodedStream final : public UnitStream {
 public:
  DecodedStream(UnitOfFile unit, std::shared_ptr<arrow::RecordBatchReader> decoded)
      : unit_(std::move(unit)), decoded_(std::move(decoded)) {}

  Result<arrow::RecordBatchVector> pieces(std::int64_t rows) override {
    arrow::RecordBatchVector parts;
    std::int64_t missing = rows;
    while (missing > 0) {
      if (left_over_ == nullptr) {
        TRY(left_over_, decode());
        if (left_over_ == nullptr) return other_count(given_ + rows - missing);
      }
      const std::int64_t taken = std::min(missing, left_over_->num_rows());
      parts.push_back(left_over_->Slice(0, taken));
      left_over_ = taken == left_over_->num_rows() ? nullptr : left_over_->Slice(taken);
      missing -= taken;
    }
    given_ += rows;
    if (given_ == unit_.rows) TRY_VOID(check_end());
    if (parts.empty()) {
      ARROW_TRY(auto none, unit_.doing, arrow::RecordBatch::MakeEmpty(unit_.schema));
      parts.push_back(std::move(none));
    }
    return parts;
  }

 private:
  /// Return the next rows, of which there is at least one; null at the end.
  Result<Rows> decode() {
    Rows rows;
    do {
      TRY(rows, decode_some());
    } while (rows != nullptr && rows->num_rows() == 0);
    if (rows == nullptr) return rows;
    arrow::ArrayVector columns;
    for (const auto& field : unit_.schema->fields()) {
      auto column = rows->GetColumnByName(field->name());
      if (!column || !column->type()->Equals(*field->type()))
        return Error{
            Errc::Corrupt,
            fmt::format("{}: its column '{}' is {}, and {} in the file's schema", unit_.doing,
                        field->name(), column ? column->type()->ToString() : "missing",
                        field->type()->ToString())};
      columns.push_back(std::move(column));
    }
    return arrow::RecordBatch::Make(unit_.schema, rows->num_rows(), std::move(columns));
  }

  Result<Rows> decode_some() {
    Rows rows;
    if (const arrow::Status read = decoded_->ReadNext(&rows); !read.ok())
      return error_from(read, unit_.doing);
    return rows;
  }

  Result<Unit> check_end() {
    std::int64_t more = left_over_ ? left_over_->num_rows() : 0;
    while (true) {
      TRY(const auto rows, decode_some());
      if (rows == nullptr) break;
      more += rows->num_rows();
    }
    if (more > 0) return other_count(given_ + more);
    decoded_.reset();
    return Unit{};
  }

  Error other_count(std::int64_t rows) const {
    return Error{Errc::Corrupt,
                 fmt::format("{}: it holds {} rows, and {} were counted when the dataset was "
                             "opened",
                             unit_.doing, rows, unit_.rows),
                 "the file changed, or is damaged"};
  }

  const UnitOfFile unit_;
  std::shared_ptr<arrow::RecordBatchReader> decoded_;
  Rows left_over_;  // decoded, and not asked for yet
  std::int64_t given_ = 0;
};

}  // namespace

std::unique_ptr<UnitStream> stream_of(UnitOfFile unit,
                                      std::shared_ptr<arrow::RecordBatchReader> decoded) {
  return std::make_unique<DecodedStream>(std::move(unit), std::move(decoded));
}

}  // namespace train::data
