// This file implements open_files: a RowSource over the units of all files of a dataset.
#include <arrow/array.h>
#include <arrow/array/concatenate.h>
#include <arrow/chunked_array.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "lib/base/check.h"
#include "lib/data/arrow_error.h"
#include "lib/data/formats/format_file.h"

namespace train::data {
namespace {

struct UnitOfFile {
  std::size_t file = 0;
  std::int64_t unit = 0;
};

Result<std::shared_ptr<arrow::Schema>> select_columns(const std::string& path,
                                                      const arrow::Schema& schema,
                                                      const std::vector<std::string>& columns) {
  arrow::FieldVector fields;
  for (const std::string& column : columns) {
    const auto found = schema.GetAllFieldsByName(column);
    if (found.size() > 1)
      return Error{Errc::InvalidArgument,
                   fmt::format("{} has {} columns named '{}'", path, found.size(), column)};
    if (found.empty()) {
      return Error{Errc::NotFound,
                   fmt::format("{} has no column '{}', only '{}'", path, column,
                               fmt::join(schema.field_names(), "', '")),
                   "correct `columns` of the dataset"};
    }
    fields.push_back(found.front());
  }
  return arrow::schema(std::move(fields));
}

std::string describe(const std::shared_ptr<arrow::Field>& field) {
  return field ? field->type()->ToString() : "nothing";
}

/// Check that two schemas match. Compares only names and types, since writers differ in metadata
/// and nullability.
Result<Unit> check_same(const std::string& first_path, const arrow::Schema& first,
                        const std::string& path, const arrow::Schema& other) {
  std::vector<std::string> names = first.field_names();
  for (const std::string& name : other.field_names()) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  for (const std::string& name : names) {
    const auto mine = first.GetFieldByName(name);
    const auto theirs = other.GetFieldByName(name);
    if (mine && theirs && mine->type()->Equals(*theirs->type())) continue;
    return Error{Errc::InvalidArgument,
                 fmt::format("files of one dataset differ: column '{}' is {} in {}, but {} in {}",
                             name, describe(mine), first_path, describe(theirs), path),
                 "rewrite one of them, or select the columns that agree with `columns`"};
  }
  return Unit{};
}

OpenedFile open_file(FileFormat format, const std::string& path, const FilesSpec& spec,
                     const std::shared_ptr<arrow::Schema>& first) {
  switch (format) {
    case FileFormat::Parquet:
      return open_parquet_file(path);
    case FileFormat::Csv:
      return open_csv_file(path, spec, first);
    case FileFormat::Json:
      return open_json_file(path, spec, first);
    case FileFormat::Arrow:
      return open_arrow_file(path);
    case FileFormat::Orc:
      return open_orc_file(path);
    case FileFormat::Numpy:
      return open_numpy_file(path);
    case FileFormat::Cifar:
      return open_cifar_file(path, spec.labels);
    case FileFormat::WebDataset:
      return open_webdataset_file(path, spec.columns);
    case FileFormat::Images:  // not one by one
    case FileFormat::Auto:
      break;
  }
  TRAIN_CHECK(false, "find_files() tells the format");
  return Error{Errc::Internal, "no format"};
}

arrow::Result<std::shared_ptr<arrow::Array>> whole_column(const arrow::ChunkedArray& column) {
  if (column.num_chunks() == 1) return column.chunk(0);
  if (column.num_chunks() == 0) return arrow::MakeEmptyArray(column.type());
  return arrow::Concatenate(column.chunks());
}

std::int64_t total_rows(const FormatFile& file) {
  const auto& rows = file.unit_rows();
  return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
}

class FilesSource final : public RowSource {
 public:
  Result<Unit> add(const std::string& path, FileFormat format, const FilesSpec& spec) {
    TRY(auto file, open_file(format, path, spec, first_schema_));
    return add(path, format, spec, std::move(file));
  }

  Result<Unit> add(const std::string& path, FileFormat format, const FilesSpec& spec,
                   std::unique_ptr<FormatFile> file) {
    if ((is_text(format) || format == FileFormat::WebDataset) && total_rows(*file) == 0) {
      // A text or an archive without rows tells no types, and JSON no columns.
      if (!schema_of_empty_) schema_of_empty_ = file->schema();
      return train::Unit{};
    }
    const auto& columns = spec.columns.empty() ? file->schema()->field_names() : spec.columns;
    TRY(auto selected, select_columns(path, *file->schema(), columns));
    if (!schema_) {
      first_schema_ = file->schema();
      schema_ = std::move(selected);
    } else {
      TRY_VOID(check_same(files_.front().first, *schema_, path, *selected));
    }
    const auto& unit_rows = file->unit_rows();
    for (std::size_t unit = 0; unit < unit_rows.size(); ++unit) {
      const std::int64_t rows = unit_rows[unit];
      if (rows < 0 || __builtin_add_overflow(rows_, rows, &rows_))
        return Error{Errc::Corrupt, fmt::format("{} says that it has {} rows in {} {}", path, rows,
                                                file->unit_word(), unit)};
      units_.push_back({files_.size(), static_cast<std::int64_t>(unit)});
      group_rows_.push_back(rows);
    }
    files_.emplace_back(path, std::move(file));
    return train::Unit{};
  }

  const std::vector<std::int64_t>& group_rows() const override { return group_rows_; }
  const std::shared_ptr<arrow::Schema>& schema() const override {
    return schema_ ? schema_ : schema_of_empty_;
  }

  std::string describe(std::int64_t group, std::int64_t row) const override {
    const UnitOfFile& at = units_[static_cast<std::size_t>(group)];
    const auto& [path, file] = files_[at.file];
    const std::string inside = file->describe(at.unit, row);
    return file->has_many_files() ? inside : fmt::format("{}, {}", path, inside);
  }

  Result<std::shared_ptr<arrow::RecordBatch>> read(std::int64_t group) const override {
    const UnitOfFile& at = units_[static_cast<std::size_t>(group)];
    const std::int64_t rows = group_rows_[static_cast<std::size_t>(group)];
    const auto& [path, file] = files_[at.file];
    const std::string doing =
        fmt::format("cannot read {} {} of {}", file->unit_word(), at.unit, path);
    auto table = file->read(at.unit, *schema_);
    if (table.has_error()) {
      Error error = std::move(table).error();  // names the file if it could not be opened
      if (file->has_many_files() || error.message.find(path) != std::string::npos) return error;
      return std::move(error).with_context(doing);
    }
    if ((*table)->num_rows() != rows) {
      return Error{Errc::Corrupt,
                   fmt::format("{}: it holds {} rows, and {} were counted when the dataset was "
                               "opened",
                               doing, (*table)->num_rows(), rows),
                   "the file changed, or is damaged"};
    }
    arrow::ArrayVector columns;
    for (const auto& field : schema_->fields()) {
      const auto column = (*table)->GetColumnByName(field->name());
      if (!column || !column->type()->Equals(*field->type()))
        return Error{Errc::Corrupt,
                     fmt::format("{}: its column '{}' is {}, and {} in the file's schema", doing,
                                 field->name(), column ? column->type()->ToString() : "missing",
                                 field->type()->ToString())};
      ARROW_TRY(auto array, doing, whole_column(*column));
      columns.push_back(std::move(array));
    }
    return arrow::RecordBatch::Make(schema_, rows, std::move(columns));
  }

 private:
  std::vector<std::pair<std::string, std::unique_ptr<FormatFile>>> files_;  // with their paths
  std::vector<UnitOfFile> units_;
  std::vector<std::int64_t> group_rows_;
  std::int64_t rows_ = 0;                        // in all units
  std::shared_ptr<arrow::Schema> first_schema_;  // of the first file, with all of its columns
  std::shared_ptr<arrow::Schema> schema_;
  std::shared_ptr<arrow::Schema> schema_of_empty_;  // of a text file without rows
};

}  // namespace

std::string FormatFile::describe(std::int64_t unit, std::int64_t row) const {
  return fmt::format("{} {}, row {}", unit_word(), unit, row);
}

Result<std::shared_ptr<arrow::Table>> checked_table(std::shared_ptr<arrow::RecordBatch> rows) {
  if (const arrow::Status valid = rows->ValidateFull(); !valid.ok())
    return error_from(valid, "damaged");
  ARROW_TRY(auto table, "no table of the rows", arrow::Table::FromRecordBatches({std::move(rows)}));
  return table;
}

Result<std::unique_ptr<RowSource>> open_files(const FilesSpec& spec) {
  TRY(const auto found, find_files(spec.paths, spec.format));
  auto source = std::make_unique<FilesSource>();
  if (found.format == FileFormat::Images) {
    TRY(auto files, open_image_files(found, spec));
    TRY_VOID(source->add(spec.paths.front(), found.format, spec, std::move(files)));
  } else {
    for (const std::string& path : found.paths) TRY_VOID(source->add(path, found.format, spec));
  }
  if (source->schema()->num_fields() == 0) {
    return Error{Errc::InvalidArgument, fmt::format("{} has no columns", found.paths.front())};
  }
  return std::unique_ptr<RowSource>(std::move(source));
}

}  // namespace train::data
