// This file implements open_files: a RowSource over the units of all files of a dataset.
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <thread>

#include "lib/base/check.h"
#include "lib/base/thread.h"
#include "lib/data/arrow_error.h"
#include "lib/data/formats/format_file.h"
#include "lib/data/plan/permutation.h"
#include "lib/data/unit_stream.h"

namespace train::data {
namespace {

struct PlaceInFiles {
  std::size_t file = 0;
  std::int64_t unit = 0;
  std::int64_t rows = 0;  // also those beyond a limit
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

OpenedFile open_as(FileFormat format, const DataFile& file, const FilesSpec& spec,
                   const std::shared_ptr<arrow::Schema>& first) {
  switch (format) {
    case FileFormat::Parquet:
      return open_parquet_file(file);
    case FileFormat::Csv:
      return open_csv_file(file, spec, first);
    case FileFormat::Json:
      return open_json_file(file, spec, first);
    case FileFormat::Arrow:
      return open_arrow_file(file);
    case FileFormat::Orc:
      return open_orc_file(file);
    case FileFormat::Numpy:
      return open_numpy_file(file);
    case FileFormat::Cifar:
      return open_cifar_file(file, spec.labels);
    case FileFormat::WebDataset:
      return open_webdataset_file(file, spec.columns);
    case FileFormat::Images:  // not one by one
    case FileFormat::Auto:
      break;
  }
  TRAIN_CHECK(false, "find_files() tells the format");
  return Error{Errc::Internal, "no format"};
}

/// Return about how many bytes a row of this type has; of values without a fixed length, what
/// points to them.
double row_bytes(const arrow::DataType& type) {
  if (const auto* list = dynamic_cast<const arrow::FixedSizeListType*>(&type))
    return list->list_size() * row_bytes(*list->value_type());
  if (const auto* fixed = dynamic_cast<const arrow::FixedWidthType*>(&type))
    return static_cast<double>(fixed->bit_width()) / 8;
  return 8;
}

std::int64_t bytes_of(const DataFile& file) {
  if (file.place != nullptr) return file.bytes;
  std::error_code gone;
  const auto bytes = std::filesystem::file_size(file.path, gone);
  return gone ? 0 : static_cast<std::int64_t>(bytes);
}

std::int64_t rows_of(const FormatFile& file) {
  const auto& rows = file.unit_rows();
  return std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
}

/// Return an error of reading a unit, which names the file.
Error named(const FormatFile& file, const UnitOfFile& unit, Error error) {
  if (file.has_many_files() || error.message.find(unit.path) != std::string::npos) return error;
  return std::move(error).with_context(unit.doing);
}

class FilesSource final : public RowSource {
 public:
  /// Return the schema of the first file with rows, with all of its columns; null before.
  const std::shared_ptr<arrow::Schema>& first_schema() const { return first_schema_; }

  Result<Unit> add(const DataFile& data, FileFormat format, const FilesSpec& spec,
                   std::unique_ptr<FormatFile> file) {
    const std::string& path = data.path;
    if ((is_text(format) || format == FileFormat::WebDataset) && rows_of(*file) == 0) {
      // A text or an archive without rows tells no types, and JSON no columns.
      if (!schema_of_empty_) schema_of_empty_ = file->schema();
      return train::Unit{};
    }
    if (!spec.filter.empty()) {
      TRY(file, filter_file(std::move(file), path, spec));
    }
    TRY(file, with_plain_tensors(std::move(file), path));
    const auto& columns = spec.columns.empty() ? file->schema()->field_names() : spec.columns;
    TRY(auto selected, select_columns(path, *file->schema(), columns));
    if (!schema_) {
      first_schema_ = file->schema();
      schema_ = std::move(selected);
    } else {
      TRY_VOID(check_same(file_rows_.front().path, *schema_, path, *selected));
    }
    TRY(const std::int64_t rows, add_units(path, *file));
    const std::int64_t size = bytes_of(data);
    const std::int64_t decoded = file->decoded_bytes(*schema_);
    decoded_bytes_ += static_cast<double>(decoded > 0 ? decoded : size);
    all_read_rows_ = all_read_rows_ && file->reads_rows();
    file_rows_.push_back({.path = path,
                          .units = static_cast<std::int64_t>(file->unit_rows().size()),
                          .rows = rows,
                          .bytes = size,
                          .digest = data.place == nullptr
                                        ? file->digest()
                                        : mix(file->digest(), digest_of_version(data)),
                          .version = data.version});
    files_.push_back(std::move(file));
    return train::Unit{};
  }

  /// Leave out all rows but the first `limit`.
  void keep_first(std::int64_t limit) {
    std::int64_t left = limit;
    std::size_t kept_units = 0, kept_files = 0;
    for (; kept_files < file_rows_.size() && left > 0; ++kept_files) {
      FileRows& file = file_rows_[kept_files];
      const std::int64_t rows_of_file = std::min(left, file.rows);
      const std::int64_t units = file.units;
      file.rows = rows_of_file;
      file.units = 0;
      for (std::int64_t unit = 0; unit < units && left > 0; ++unit, ++kept_units, ++file.units) {
        unit_rows_[kept_units] = std::min(left, unit_rows_[kept_units]);
        left -= unit_rows_[kept_units];
      }
    }
    file_rows_.resize(kept_files);
    units_.resize(kept_units);
    unit_rows_.resize(kept_units);
    const std::int64_t kept = limit - left;
    decoded_bytes_ *=
        static_cast<double>(kept) / static_cast<double>(std::max<std::int64_t>(1, rows_));
    rows_ = kept;
  }

  const std::vector<std::int64_t>& unit_rows() const override { return unit_rows_; }
  const std::vector<FileRows>& files() const override { return file_rows_; }
  const std::shared_ptr<arrow::Schema>& schema() const override {
    return schema_ ? schema_ : schema_of_empty_;
  }

  std::string describe(std::int64_t unit, std::int64_t row) const override {
    const PlaceInFiles& at = units_[static_cast<std::size_t>(unit)];
    const auto& file = files_[at.file];
    const std::string inside = file->describe(at.unit, row);
    return file->has_many_files() ? inside
                                  : fmt::format("{}, {}", file_rows_[at.file].path, inside);
  }

  std::int64_t decoded_bytes() const override {
    // What a file says of itself need not be true, and encoded values are smaller than decoded
    // ones.
    double bytes = decoded_bytes_;
    double by_type = 0;
    for (const auto& field : schema()->fields()) by_type += row_bytes(*field->type());
    bytes = std::max(bytes, by_type * static_cast<double>(rows_));
    return static_cast<std::int64_t>(std::clamp(bytes, 1.0, 9e18));
  }

  Result<std::unique_ptr<UnitStream>> open(std::int64_t unit,
                                           std::int64_t rows_at_once) const override {
    const PlaceInFiles& at = units_[static_cast<std::size_t>(unit)];
    UnitOfFile of_file = unit_of_file(unit);
    auto decoded = files_[at.file]->open(at.unit, *schema_, rows_at_once);
    if (decoded.has_error()) return named(*files_[at.file], of_file, std::move(decoded).error());
    return stream_of(std::move(of_file), std::move(*decoded));
  }

  bool reads_rows() const override { return all_read_rows_; }

  bool is_far() const override { return !places_.empty(); }
  void expect(std::int64_t unit) const override {
    const PlaceInFiles& at = units_[static_cast<std::size_t>(unit)];
    files_[at.file]->expect(at.unit, *schema_);
  }
  void expect_rows(std::int64_t unit, const std::vector<std::int64_t>& rows) const override {
    const PlaceInFiles& at = units_[static_cast<std::size_t>(unit)];
    files_[at.file]->expect_rows(at.unit, rows);
  }
  void expect_nothing() const override {
    for (const auto& place : places_) place->expected().clear();
  }
  void add_place(const std::shared_ptr<const ObjectPlace>& place) {
    if (place != nullptr) places_.insert(place);
  }

  Result<std::shared_ptr<arrow::RecordBatch>> read_rows(
      std::int64_t unit, const std::vector<std::int64_t>& rows) const override {
    const PlaceInFiles& at = units_[static_cast<std::size_t>(unit)];
    UnitOfFile of_file = unit_of_file(unit);
    of_file.rows = static_cast<std::int64_t>(rows.size());
    auto table = files_[at.file]->read_rows(at.unit, rows, *schema_);
    if (table.has_error()) return named(*files_[at.file], of_file, std::move(table).error());
    const std::int64_t count = of_file.rows;
    const auto stream =
        stream_of(std::move(of_file), std::make_shared<arrow::TableBatchReader>(*table));
    return stream->next(count);
  }

 private:
  /// Count the units of a file, and return its rows.
  Result<std::int64_t> add_units(const std::string& path, const FormatFile& file) {
    const auto& unit_rows = file.unit_rows();
    const std::int64_t before = rows_;
    for (std::size_t unit = 0; unit < unit_rows.size(); ++unit) {
      const std::int64_t rows = unit_rows[unit];
      if (rows < 0 || __builtin_add_overflow(rows_, rows, &rows_))
        return Error{Errc::Corrupt, fmt::format("{} says that it has {} rows in {} {}", path, rows,
                                                file.unit_word(), unit)};
      units_.push_back({files_.size(), static_cast<std::int64_t>(unit), rows});
      unit_rows_.push_back(rows);
    }
    return rows_ - before;
  }

  UnitOfFile unit_of_file(std::int64_t unit) const {
    const PlaceInFiles& at = units_[static_cast<std::size_t>(unit)];
    const std::string& path = file_rows_[at.file].path;
    return {.doing =
                fmt::format("cannot read {} {} of {}", files_[at.file]->unit_word(), at.unit, path),
            .path = path,
            .rows = at.rows,
            .schema = schema_};
  }

  std::set<std::shared_ptr<const ObjectPlace>> places_;  // of the objects
  std::vector<std::unique_ptr<FormatFile>> files_;
  std::vector<FileRows> file_rows_;  // of each file
  std::vector<PlaceInFiles> units_;
  std::vector<std::int64_t> unit_rows_;
  std::int64_t rows_ = 0;  // in all units
  double decoded_bytes_ = 0;
  bool all_read_rows_ = true;
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

Result<std::shared_ptr<arrow::RecordBatchReader>> FormatFile::open(std::int64_t unit,
                                                                   const arrow::Schema& selected,
                                                                   std::int64_t) const {
  TRY(auto table, read(unit, selected));
  return std::make_shared<arrow::TableBatchReader>(std::move(table));
}

Result<std::shared_ptr<arrow::Table>> FormatFile::read_rows(std::int64_t,
                                                            const std::vector<std::int64_t>&,
                                                            const arrow::Schema&) const {
  return Error{Errc::Internal, "single rows of this format cannot be read"};
}

namespace {

/// A file that another thread opens.
class Opening {
 public:
  explicit Opening(std::function<OpenedFile()> open)
      : thread_(start_thread("trainrun-open",
                             [this, open = std::move(open)] { opened_.emplace(open()); })) {}
  ~Opening() {
    if (thread_.joinable()) thread_.join();
  }
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;

  OpenedFile take() {
    thread_.join();
    return std::move(*opened_);
  }

 private:
  std::optional<OpenedFile> opened_;
  std::thread thread_;
};

/// Open the files one after the other, those of an object store several at a time.
Result<Unit> open_all(const FoundFiles& found, const FilesSpec& spec, FilesSource& source) {
  constexpr std::size_t kOpenedAtOnce = 16;
  std::deque<Opening> ahead;
  std::size_t begun = 0;  // the first file that no thread opens
  for (std::size_t i = 0; i < found.files.size(); ++i) {
    const auto open = [&, first = source.first_schema()](std::size_t file) {
      return open_as(found.format, found.files[file], spec, first);
    };
    // The types of texts are those of the first file.
    const bool may_go_ahead = !is_text(found.format) || source.first_schema() != nullptr;
    for (begun = std::max(begun, i);
         may_go_ahead && begun < std::min(found.files.size(), i + kOpenedAtOnce) &&
         found.files[begun].place != nullptr;
         ++begun)
      ahead.emplace_back([open, begun] { return open(begun); });
    const bool is_ahead = begun > i;
    TRY(auto file, is_ahead ? ahead.front().take() : open(i));
    if (is_ahead) ahead.pop_front();
    TRY_VOID(source.add(found.files[i], found.format, spec, std::move(file)));
  }
  return Unit{};
}

}  // namespace

Result<std::unique_ptr<RowSource>> open_files(const FilesSpec& spec) {
  TRY(const auto found, find_files(spec.paths, spec.format, spec.stores));
  auto source = std::make_unique<FilesSource>();
  for (const DataFile& file : found.files) source->add_place(file.place);
  if (found.format == FileFormat::Images) {
    TRY(auto files, open_image_files(found, spec));
    const DataFile all{.path = spec.paths.front()};
    TRY_VOID(source->add(all, found.format, spec, std::move(files)));
  } else {
    TRY_VOID(open_all(found, spec, *source));
  }
  if (spec.limit > 0) source->keep_first(spec.limit);
  if (source->schema()->num_fields() == 0) {
    return Error{Errc::InvalidArgument, fmt::format("{} has no columns", found.files.front().path)};
  }
  return std::unique_ptr<RowSource>(std::move(source));
}

}  // namespace train::data
