#include "sdk/data/dataset_spec.h"

#include <arrow/compute/initialize.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lib/data/arrow_error.h"
#include "sdk/data/items_rows.h"

namespace train::sdk {

namespace {

/// Return the one character; 0 for none.
char delimiter_of(const std::string& text) {
  if (text.size() > 1)
    throw Failure("invalid_argument", fmt::format("delimiter is '{}', not one character", text));
  return text.empty() ? '\0' : text.front();
}

std::vector<MapStep> steps_of(const Config& config, const std::string& key) {
  std::vector<MapStep> steps;
  for (const Value& entry : config.get<List>(key, List())) {
    const Config step(entry.as<Dict>());
    steps.push_back({step.get<std::string>("name"), step.get<Dict>("arguments", Dict())});
  }
  return steps;
}

/// Return the maps. Pictures that have a size are decoded by one, when a batch needs them.
std::vector<MapStep> maps_of(const Config& config, const DatasetSpec& spec) {
  std::vector<MapStep> maps;
  const auto size = config.get<Value>("size", Value());
  const auto& columns = spec.files.columns;
  const bool reads_image =
      columns.empty() || std::find(columns.begin(), columns.end(), "image") != columns.end();
  if (spec.format == "images" && reads_image && !size.is_null())
    maps.push_back(
        {"decode_image", {{"size", size}, {"mode", config.get<std::string>("mode", "RGB")}}});
  for (MapStep& step : steps_of(config, "map")) maps.push_back(std::move(step));
  return maps;
}

void read_mix(const Config& entry, DatasetSpec& spec) {
  for (const auto& [name, weight] : entry.get<Dict>("mix", Dict()))
    spec.mix[name] = weight.as<double>();
  spec.mix_rows = entry.get<std::int64_t>("rows", 0);
  const auto stop = entry.get<std::string>("stopping_condition", "stop_on_shortest");
  spec.mix_end = spec.mix_rows > 0                ? data::MixEnd::Rows
                 : stop == "stop_on_longest_drop" ? data::MixEnd::LongestDrop
                                                  : data::MixEnd::Shortest;
}

data::OrderWish order_wish_from(const Config& entry) {
  data::OrderWish wish;
  wish.shuffle = entry.get<bool>("shuffle", wish.shuffle);
  wish.seed = entry.get<std::uint64_t>("shuffle_seed", wish.seed);
  const auto mode = entry.get<std::string>("shuffle_mode", "window");
  wish.mode = mode == "files"    ? data::Shuffle::Files
              : mode == "global" ? data::Shuffle::Rows
                                 : data::Shuffle::Window;
  wish.window_bytes = entry.get<std::int64_t>("shuffle_window", wish.window_bytes);
  wish.lanes = entry.get<std::int64_t>("lanes", wish.lanes);
  wish.preserve_order = entry.get<bool>("preserve_order", wish.preserve_order);
  return wish;
}

}  // namespace

DatasetSpec dataset_spec_from(const Dict& entry) {
  const Config config(entry);
  DatasetSpec spec;
  spec.format = config.get<std::string>("format", spec.format);
  data::FilesSpec& files = spec.files;
  const auto path = entry.find("path");
  if (path != entry.end() && path->second.is_string())
    files.paths = {path->second.as<std::string>()};
  else
    files.paths = config.get<std::vector<std::string>>("path", files.paths);
  files.columns = config.get<std::vector<std::string>>("columns", files.columns);
  for (const auto& [column, type] : config.get<Dict>("schema", Dict{}))
    files.types[column] = type.as<std::string>();
  files.delimiter = delimiter_of(config.get<std::string>("delimiter", ""));
  files.newlines_in_values = config.get<bool>("newlines_in_values", files.newlines_in_values);
  files.labels = static_cast<int>(config.get<std::int64_t>("labels", files.labels));
  files.include_paths = config.get<bool>("include_paths", files.include_paths);
  spec.maps = maps_of(config, spec);
  spec.preprocessors = steps_of(config, "preprocessors");
  spec.preprocessors_from = config.get<std::string>("preprocessors_from", "");
  spec.skip_rows_max = config.get<std::int64_t>("skip_rows_max", spec.skip_rows_max);

  files.filter = config.get<std::string>("filter", files.filter);
  files.limit = config.get<std::int64_t>("limit", files.limit);
  spec.items = config.get<List>("items", spec.items);
  spec.split = config.get<bool>("split", spec.split);
  spec.balance = config.get<bool>("balance", spec.balance);
  spec.by_ingest_workers = config.get<std::int64_t>("ingest_workers", 0) > 0;
  read_mix(config, spec);
  spec.order = order_wish_from(config);
  spec.restart_changed_epoch = config.get<std::string>("on_change", "fail") == "restart_epoch";
  return spec;
}

std::shared_ptr<DatasetMeters> meters_of(const std::string& dataset, const DatasetSpec& spec,
                                         DataPage& page) {
  std::vector<std::string> maps;
  // All maps of a mix's datasets are one operator.
  if (!spec.mix.empty()) maps.emplace_back("of its datasets");
  if (!spec.preprocessors.empty()) maps.emplace_back("preprocessors");
  for (const MapStep& step : spec.maps) maps.push_back(step.name);
  const bool filters = spec.format != "items" && !spec.files.filter.empty();
  return std::make_shared<DatasetMeters>(page, dataset, filters, maps);
}

Result<std::shared_ptr<const data::RowSource>> open_dataset(
    const DatasetSpec& spec, const std::shared_ptr<DatasetMeters>& meters) {
  const DatasetMeters::Working indexing(meters.get(), &DatasetMeters::index);
  // registers the gather kernels; cheap if it is done already
  if (const arrow::Status ready = arrow::compute::Initialize(); !ready.ok())
    return data::error_from(ready, "cannot set up Arrow");
  std::shared_ptr<const data::RowSource> source;
  if (spec.format == "items") {
    TRY(auto rows, rows_from_items(spec.items, spec.files.columns));
    source = std::make_shared<data::MemorySource>(std::move(rows));
  } else {
    data::FilesSpec files = spec.files;
    const auto format = data::file_format(spec.format);
    if (!format) {
      return Error{
          Errc::InvalidArgument, fmt::format("its format is '{}'", spec.format),
          "auto, parquet, csv, json, arrow, orc, numpy, cifar, images, webdataset and items "
          "can be read"};
    }
    files.format = *format;
    files.meters = meters;
    TRY(source, data::open_files(files));
  }
  if (source->total_rows() == 0) {
    return Error{Errc::InvalidArgument,
                 spec.format == "items"
                     ? "it has no items"
                     : fmt::format("{} has no rows", fmt::join(spec.files.paths, ", "))};
  }
  if (meters) {
    std::int64_t bytes = 0;
    for (const data::FileRows& file : source->files()) bytes += file.bytes;
    meters->index().passed(source->total_rows(), bytes);
  }
  return source;
}

}  // namespace train::sdk
