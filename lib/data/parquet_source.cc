// This file implements open_files and its source. It is the only file that calls Parquet, which
// reports some faults by exceptions.
#include <arrow/array.h>
#include <arrow/array/concatenate.h>
#include <arrow/io/file.h>
#include <arrow/memory_pool.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <algorithm>

#include "lib/data/arrow_error.h"
#include "lib/data/dataset_files.h"

namespace train::data {
namespace {

struct OpenedFile {
  std::string path;
  std::shared_ptr<parquet::FileMetaData> footer;
  std::vector<int> leaves;  // Parquet columns under the selected Arrow ones
};

struct GroupOfFile {
  std::size_t file = 0;
  int group = 0;
};

Result<std::unique_ptr<parquet::arrow::FileReader>> open_reader(
    const std::string& path, std::shared_ptr<parquet::FileMetaData> footer) {
  try {
    ARROW_TRY(auto input, fmt::format("cannot open {}", path), arrow::io::ReadableFile::Open(path));
    parquet::arrow::FileReaderBuilder builder;
    const arrow::Status opened =
        builder.Open(std::move(input), parquet::default_reader_properties(), std::move(footer));
    if (!opened.ok())
      return error_from(opened, fmt::format("{} is not a complete Parquet file", path));
    // The caller's thread serves only this reader.
    parquet::ArrowReaderProperties properties(
        /*use_threads=*/false);
    properties.set_pre_buffer(false);  // files are local: Arrow's pool need not read ahead
    ARROW_TRY(auto reader, fmt::format("cannot read {}", path),
              builder.properties(properties)->Build());
    return reader;
  } catch (const parquet::ParquetException& fault) {
    return Error{Errc::Corrupt,
                 fmt::format("{} is not a complete Parquet file: {}", path, fault.what())};
  }
}

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

class ParquetSource final : public RowSource {
 public:
  static Result<std::unique_ptr<RowSource>> open(const FilesSpec& spec) {
    TRY(const auto paths, find_files(spec.path));
    auto source = std::make_unique<ParquetSource>();
    for (const std::string& path : paths) TRY_VOID(source->add_file(path, spec.columns));
    return std::unique_ptr<RowSource>(std::move(source));
  }

  const std::vector<std::int64_t>& group_rows() const override { return group_rows_; }
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }

  Result<std::shared_ptr<arrow::RecordBatch>> read(std::int64_t group) const override {
    const GroupOfFile& location = groups_[static_cast<std::size_t>(group)];
    const std::string doing =
        fmt::format("cannot read row group {} of {}", location.group, files_[location.file].path);
    auto table = read_table(location, doing);
    if (table.has_error()) return std::move(table).error();
    if ((*table)->num_rows() != group_rows_[static_cast<std::size_t>(group)]) {
      return Error{Errc::Corrupt,
                   fmt::format("{}: it holds {} rows, its footer says {}", doing,
                               (*table)->num_rows(), group_rows_[static_cast<std::size_t>(group)])};
    }
    arrow::ArrayVector columns;
    for (const auto& field : schema_->fields()) {  // the table has them in the file's order
      ARROW_TRY(auto column, doing, whole_column(*(*table)->GetColumnByName(field->name())));
      columns.push_back(std::move(column));
    }
    return arrow::RecordBatch::Make(schema_, (*table)->num_rows(), std::move(columns));
  }

 private:
  static arrow::Result<std::shared_ptr<arrow::Array>> whole_column(
      const arrow::ChunkedArray& column) {
    if (column.num_chunks() == 1) return column.chunk(0);
    if (column.num_chunks() == 0) return arrow::MakeEmptyArray(column.type());
    return arrow::Concatenate(column.chunks());
  }

  Result<std::shared_ptr<arrow::Table>> read_table(const GroupOfFile& location,
                                                   const std::string& doing) const {
    const OpenedFile& file = files_[location.file];
    TRY(const auto reader, open_reader(file.path, file.footer));
    try {
      ARROW_TRY(auto table, doing, reader->ReadRowGroup(location.group, file.leaves));
      return table;
    } catch (const parquet::ParquetException& fault) {
      return Error{Errc::Corrupt, fmt::format("{}: {}", doing, fault.what())};
    }
  }

  Result<Unit> add_file(const std::string& path, const std::vector<std::string>& columns) {
    TRY(const auto reader, open_reader(path, nullptr));
    std::shared_ptr<arrow::Schema> all;
    if (const arrow::Status status = reader->GetSchema(&all); !status.ok()) {
      return error_from(status, fmt::format("cannot read the schema of {}", path));
    }
    TRY(auto selected, select_columns(path, *all, columns.empty() ? all->field_names() : columns));
    if (!schema_) {
      schema_ = std::move(selected);
    } else {
      TRY_VOID(check_same(files_.front().path, *schema_, path, *selected));
    }

    OpenedFile file{.path = path, .footer = reader->parquet_reader()->metadata(), .leaves = {}};
    const parquet::SchemaDescriptor& leaves = *file.footer->schema();
    for (int leaf = 0; leaf < leaves.num_columns(); ++leaf) {
      if (schema_->GetFieldByName(leaves.GetColumnRoot(leaf)->name())) file.leaves.push_back(leaf);
    }
    for (int group = 0; group < file.footer->num_row_groups(); ++group) {
      const std::int64_t rows = file.footer->RowGroup(group)->num_rows();
      if (rows < 0 || __builtin_add_overflow(rows_, rows, &rows_))
        return Error{Errc::Corrupt,
                     fmt::format("{} says that it has {} rows in row group {}", path, rows, group)};
      groups_.push_back({files_.size(), group});
      group_rows_.push_back(rows);
    }
    files_.push_back(std::move(file));
    return Unit{};
  }

  std::vector<OpenedFile> files_;
  std::vector<GroupOfFile> groups_;
  std::vector<std::int64_t> group_rows_;
  std::int64_t rows_ = 0;  // in all groups
  std::shared_ptr<arrow::Schema> schema_;
};

}  // namespace

Result<std::unique_ptr<RowSource>> open_files(const FilesSpec& spec) {
  auto source = ParquetSource::open(spec);
  if (source.has_value() && (*source)->schema()->num_fields() == 0) {
    return Error{Errc::InvalidArgument, fmt::format("{} has no columns", spec.path)};
  }
  return source;
}

}  // namespace train::data
