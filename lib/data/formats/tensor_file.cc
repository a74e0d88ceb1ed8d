// A file whose columns of tensors are nested lists of fixed sizes, as the rest of trainrun expects
// them: maps, shuffles and tensors need no knowledge of extensions.
#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <map>

#include "lib/data/arrow_error.h"
#include "lib/data/formats/format_file.h"
#include "lib/data/formats/tensor_shape.h"

namespace train::data {
namespace {

using Shapes = std::map<std::string, TensorShape>;  // by column

class PlainTensorReader final : public arrow::RecordBatchReader {
 public:
  PlainTensorReader(std::shared_ptr<arrow::RecordBatchReader> rows,
                    std::shared_ptr<arrow::Schema> schema, std::shared_ptr<const Shapes> shapes)
      : rows_(std::move(rows)), schema_(std::move(schema)), shapes_(std::move(shapes)) {}
  std::shared_ptr<arrow::Schema> schema() const override { return schema_; }

  arrow::Status ReadNext(std::shared_ptr<arrow::RecordBatch>* rows) override {
    std::shared_ptr<arrow::RecordBatch> stored;
    ARROW_RETURN_NOT_OK(rows_->ReadNext(&stored));
    *rows = nullptr;
    if (stored == nullptr) return arrow::Status::OK();
    arrow::ArrayVector columns;
    for (const auto& field : schema_->fields()) {
      auto column = stored->GetColumnByName(field->name());
      if (!column) return arrow::Status::Invalid("column '", field->name(), "' is missing");
      if (const auto shape = shapes_->find(field->name()); shape != shapes_->end()) {
        auto plain = plain_tensors(std::move(column), shape->second);
        if (plain.has_error())
          return arrow::Status::Invalid("column '", field->name(), "': ", plain.error().describe());
        column = std::move(*plain);
      }
      columns.push_back(std::move(column));
    }
    *rows = arrow::RecordBatch::Make(schema_, stored->num_rows(), std::move(columns));
    return arrow::Status::OK();
  }

 private:
  std::shared_ptr<arrow::RecordBatchReader> rows_;
  std::shared_ptr<arrow::Schema> schema_;
  std::shared_ptr<const Shapes> shapes_;
};

class TensorFile final : public FormatFile {
 public:
  TensorFile(std::unique_ptr<FormatFile> file, std::shared_ptr<arrow::Schema> schema, Shapes shapes)
      : file_(std::move(file)),
        schema_(std::move(schema)),
        shapes_(std::make_shared<const Shapes>(std::move(shapes))) {}

  const std::vector<std::int64_t>& unit_rows() const override { return file_->unit_rows(); }
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  std::string_view unit_word() const override { return file_->unit_word(); }
  std::uint64_t digest() const override { return file_->digest(); }
  std::int64_t decoded_bytes(const arrow::Schema& selected) const override {
    return file_->decoded_bytes(selected);
  }

  void expect(std::int64_t unit, const arrow::Schema& selected) const override {
    file_->expect(unit, selected);
  }

  Result<std::shared_ptr<arrow::RecordBatchReader>> open(std::int64_t unit,
                                                         const arrow::Schema& selected,
                                                         std::int64_t rows_at_once) const override {
    TRY(auto rows, file_->open(unit, selected, rows_at_once));
    return std::make_shared<PlainTensorReader>(
        std::move(rows), std::make_shared<arrow::Schema>(selected.fields()), shapes_);
  }

  Result<std::shared_ptr<arrow::Table>> read(std::int64_t unit,
                                             const arrow::Schema& selected) const override {
    TRY(const auto rows, open(unit, selected, file_->unit_rows()[static_cast<std::size_t>(unit)]));
    ARROW_TRY(auto table, "tensors", rows->ToTable());
    return table;
  }

 private:
  std::unique_ptr<FormatFile> file_;
  std::shared_ptr<arrow::Schema> schema_;
  std::shared_ptr<const Shapes> shapes_;
};

}  // namespace

OpenedFile with_plain_tensors(std::unique_ptr<FormatFile> file, const std::string& path) {
  Shapes shapes;
  arrow::FieldVector fields;
  for (const auto& field : file->schema()->fields()) {
    auto shape = tensor_shape(*field);
    if (shape.has_error()) {
      return std::move(shape).error().with_context(
          fmt::format("column '{}' of {}", field->name(), path));
    }
    fields.push_back(field);
    if (!*shape) continue;
    fields.back() = arrow::field(field->name(), plain_type(*field->type(), **shape));
    shapes.emplace(field->name(), std::move(**shape));
  }
  if (shapes.empty()) return file;
  return std::make_unique<TensorFile>(std::move(file), arrow::schema(std::move(fields)),
                                      std::move(shapes));
}

}  // namespace train::data
