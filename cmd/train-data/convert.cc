#include "cmd/train-data/convert.h"

#include <arrow/array/builder_primitive.h>
#include <arrow/compute/api_vector.h>
#include <arrow/datum.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cmd/train-data/convert_folder.h"
#include "cmd/train-data/datasets.h"
#include "cmd/train-data/output_file.h"
#include "cmd/train-data/sample_fields.h"
#include "lib/base/print.h"
#include "lib/base/time.h"
#include "lib/base/utf8.h"
#include "lib/data/arrow_error.h"
#include "lib/data/batch_reader.h"
#include "lib/data/plan/choose_order.h"
#include "lib/data/plan/permutation.h"
#include "sdk/data/cursor.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using Rows = std::shared_ptr<arrow::RecordBatch>;

constexpr std::int64_t kFilesMax = 10'000'000;
constexpr std::int64_t kBatchBytes = 4 << 20;  // that are read at once
constexpr auto kProgressEvery = std::chrono::seconds(10);

/// What is read, in which order.
struct Input {
  std::shared_ptr<const data::RowSource> source;
  data::UnitLayout layout;
  std::string digest;
  data::OrderSpec order;
  std::int64_t rows = 0;

  /// Return how many rows have about so many bytes.
  std::int64_t rows_in(std::int64_t bytes) const {
    const double of_row = static_cast<double>(source->decoded_bytes()) / static_cast<double>(rows);
    return std::max<std::int64_t>(
        1, static_cast<std::int64_t>(static_cast<double>(bytes) / std::max(of_row, 1.0)));
  }
};

Result<Input> open_input(const ConvertOptions& options) {
  TRY(const sdk::DatasetSpec spec, read_dataset_spec(options.dataset));
  Input input;
  TRY(input.source, sdk::open_dataset(spec));
  const sdk::DatasetLayout layout = sdk::layout_of(*input.source);
  input.layout = layout.units;
  input.digest = layout.digest;
  input.rows = input.source->total_rows();
  data::OrderWish wish{.shuffle = options.shuffle.has_value(),
                       .seed = static_cast<std::uint64_t>(options.shuffle.value_or(0)),
                       .window_bytes = options.window_bytes};
  if (input.source->reads_rows()) wish.mode = data::Shuffle::Rows;
  TRY(input.order, data::choose_order(wish,
                                      {.rows = input.rows,
                                       .decoded_bytes = input.source->decoded_bytes(),
                                       .reads_rows = input.source->reads_rows()},
                                      1, std::nullopt));
  return input;
}

/// Gives the rows of the output, from any of them on. They are those of an epoch whose steps have
/// batch_rows() rows: within a step, rows of one lane follow each other, so where lanes are mixed,
/// the rows of each step are mixed once more.
class RowReader {
 public:
  explicit RowReader(const Input& input)
      : input_(input), batch_rows_(std::min(input.rows_in(kBatchBytes), data::kBatchSizeMax)) {}

  std::int64_t batch_rows() const { return batch_rows_; }

  /// Return up to `count` rows from `row` on, at least one.
  Result<Rows> read(std::int64_t row, std::int64_t count) {
    if (!reader_ || row != next_row_) TRY_VOID(go_to(row));
    if (!rows_) {
      TRY(rows_, next_batch());
    }
    const std::int64_t taken = std::min(count, rows_->num_rows());
    Rows part = rows_->Slice(0, taken);
    rows_ = taken == rows_->num_rows() ? nullptr : rows_->Slice(taken);
    next_row_ += taken;
    return part;
  }

 private:
  /// Begin with the batch that has the row.
  Result<Unit> go_to(std::int64_t row) {
    step_ = row / batch_rows_;
    const std::int64_t first = step_ * batch_rows_;
    TRY(auto plan, data::ShardPlan::make({.layout = input_.layout,
                                          .batch_sizes = {batch_rows_},
                                          .order = input_.order,
                                          .rows_consumed = first}));
    reader_.emplace(input_.source, std::move(plan));
    batch_ = 0;
    TRY(rows_, next_batch());
    rows_ = rows_->Slice(row - first);
    next_row_ = row;
    return Unit{};
  }

  Result<Rows> next_batch() {
    TRY(auto batch, reader_->read(batch_++));
    const std::uint64_t step = static_cast<std::uint64_t>(step_++);
    Rows rows = batch.rows->Slice(0, batch.valid_rows);
    if (input_.order.shuffle != data::Shuffle::Window) return rows;
    const data::Permutation mixed(rows->num_rows(), data::mix(input_.order.seed, step));
    arrow::Int64Builder builder;
    for (std::int64_t i = 0; i < rows->num_rows(); ++i)
      if (const auto added = builder.Append(mixed(i)); !added.ok())
        return data::error_from(added, kMixing);
    ARROW_TRY(const auto order, kMixing, builder.Finish());
    ARROW_TRY(const auto taken, kMixing,
              arrow::compute::Take(arrow::Datum(rows), arrow::Datum(order)));
    return taken.record_batch();
  }

  static constexpr std::string_view kMixing = "cannot mix rows";

  const Input& input_;
  const std::int64_t batch_rows_;
  std::optional<data::BatchReader> reader_;
  std::int64_t batch_ = 0;  // of the reader
  std::int64_t step_ = 0;   // of the output
  std::int64_t next_row_ = 0;
  Rows rows_;  // that were read, from next_row_ on; null: none
};

class Conversion {
 public:
  Conversion(const ConvertOptions& options, OutputFormat format, Input input)
      : options_(options),
        format_(format),
        input_(std::move(input)),
        chunk_rows_(std::min(input_.rows_in(chunk_bytes_of(format)), options.rows_per_file)),
        reader_(input_) {}

  std::int64_t files() const {
    return (input_.rows + options_.rows_per_file - 1) / options_.rows_per_file;
  }

  /// Return what tells this conversion from others.
  Dict identity() const {
    List columns;
    for (const auto& field : input_.source->schema()->fields())
      columns.emplace_back(utf8_text(field->ToString()));
    return {{"version", 1},
            {"to", options_.to},
            {"rows_per_file", options_.rows_per_file},
            {"rows", input_.rows},
            {"source", input_.digest},
            {"columns", std::move(columns)},
            {"shuffle", options_.shuffle ? Value(*options_.shuffle) : Value()},
            {"order",
             fmt::format("{}, {} lanes, {} rows a block", data::to_string(input_.order.shuffle),
                         input_.order.lanes, input_.order.block_rows)},
            {"chunk_rows", chunk_rows_},
            {"batch_rows", reader_.batch_rows()}};
  }

  Result<Unit> prepare() {
    if (format_ != OutputFormat::WebDataset) return Unit{};
    TRY(const Rows first, RowReader(input_).read(0, 1));
    TRY(auto fields, sample_fields(*first));
    fields_ = std::make_shared<const SampleFields>(std::move(fields));
    return Unit{};
  }

  Result<Converted> run(const ConvertFolder& folder) {
    Converted converted{.files = files(), .rows = input_.rows};
    TimePoint told = std::chrono::steady_clock::now();
    for (std::int64_t file = 0; file < files(); ++file) {
      TRY(const bool there, folder.has(file));
      if (there) {
        ++converted.files_before;
        continue;
      }
      auto written = write_file(folder, file);
      if (written.has_error()) {
        folder.discard(file);
        return std::move(written).error();
      }
      converted.bytes += *written;
      if (const TimePoint now = std::chrono::steady_clock::now(); now - told > kProgressEvery) {
        told = now;
        print_err("train-run: {} of {} files\n", file + 1, files());
      }
    }
    return converted;
  }

 private:
  NewOutput new_output(const OutputPlace& file) const {
    switch (format_) {
      case OutputFormat::Parquet:
        return new_parquet_file(file, input_.source->schema());
      case OutputFormat::Arrow:
        return new_arrow_file(file, input_.source->schema());
      case OutputFormat::WebDataset:
        return new_webdataset_file(file, fields_);
    }
    return Error{Errc::Internal, "no such format"};
  }

  Result<std::int64_t> write_file(const ConvertFolder& folder, std::int64_t file) {
    const std::int64_t first = file * options_.rows_per_file;
    const std::int64_t end = std::min(first + options_.rows_per_file, input_.rows);
    TRY(FileDescriptor fd, folder.begin(file));
    TRY(const auto output,
        new_output({.fd = fd.get(), .path = folder.partial_path(file), .first_row = first}));
    for (std::int64_t row = first; row < end;) {
      TRY(const Rows chunk, read_chunk(row, std::min(chunk_rows_, end - row)));
      TRY_VOID(output->write(chunk));
      row += chunk->num_rows();
    }
    TRY_VOID(output->finish());
    return folder.commit(file, std::move(fd));
  }

  /// Return these rows. Files are cut into the same chunks wherever the reading began.
  Result<Rows> read_chunk(std::int64_t row, std::int64_t count) {
    arrow::RecordBatchVector parts;
    for (std::int64_t missing = count; missing > 0;) {
      TRY(auto part, reader_.read(row + count - missing, missing));
      missing -= part->num_rows();
      parts.push_back(std::move(part));
    }
    ARROW_TRY(auto chunk, "cannot join rows", arrow::ConcatenateRecordBatches(parts));
    return chunk;
  }

  const ConvertOptions& options_;
  const OutputFormat format_;
  const Input input_;
  const std::int64_t chunk_rows_;
  RowReader reader_;
  std::shared_ptr<const SampleFields> fields_;  // WebDataset
};

/// Refuse a folder within one that is read: its files would be taken for the source's.
Result<Unit> check_outside(const ConvertOptions& options) {
  std::error_code error;
  const std::string folder = fs::weakly_canonical(options.folder, error).string() + "/";
  if (error) return system_error(error.value(), "looking for " + options.folder);
  TRY(const sdk::DatasetSpec spec, read_dataset_spec(options.dataset));
  for (const std::string& path : spec.files.paths) {
    if (!fs::is_directory(path, error)) continue;
    const std::string source = fs::weakly_canonical(path, error).string() + "/";
    if (!error && folder.starts_with(source))
      return Error{Errc::InvalidArgument,
                   fmt::format("{} lies within {}, which is read", options.folder, path),
                   "convert into a folder elsewhere"};
  }
  return Unit{};
}

}  // namespace

Result<Converted> convert(const ConvertOptions& options) {
  if (options.folder.find("://") != std::string::npos)
    return Error{Errc::InvalidArgument,
                 fmt::format("{} is no folder of this machine", options.folder),
                 "convert into a local folder, and copy that"};
  TRY(const OutputFormat format, output_format(options.to));
  TRY_VOID(check_outside(options));
  TRY(auto input, open_input(options));
  Conversion conversion(options, format, std::move(input));
  if (conversion.files() > kFilesMax)
    return Error{Errc::InvalidArgument, fmt::format("it would make {} files", conversion.files()),
                 "give more --rows-per-file"};
  TRY_VOID(conversion.prepare());
  TRY(const auto folder,
      ConvertFolder::open(options.folder, conversion.identity(),
                          {.count = conversion.files(), .ending = std::string(ending_of(format))}));
  auto converted = conversion.run(folder);
  if (converted.has_value() || converted.error().code != Errc::NoSpace) return converted;
  Error full = std::move(converted).error();
  full.hint = "make room and repeat the command: it goes on with the first file that is missing";
  return full;
}

}  // namespace train
