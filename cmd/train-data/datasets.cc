#include "cmd/train-data/datasets.h"

#include <arrow/record_batch.h>
#include <fmt/format.h>

#include <algorithm>

#include "lib/data/arrow_error.h"
#include "lib/model/built_in_maps.h"
#include "sdk/data/map_chain.h"

namespace train {

Result<sdk::DatasetSpec> read_dataset_spec(const Value& entry) {
  try {
    return sdk::dataset_spec_from(entry.as<Dict>());
  } catch (const Failure& why) {
    return Error{errc_of(why.kind()), why.what()};
  }
}

Result<std::shared_ptr<const data::RowSource>> open_rows(const sdk::DatasetSpec& spec) {
  if (spec.format == "items") return sdk::open_dataset(spec);
  data::FilesSpec files = spec.files;
  files.format = data::file_format(spec.format).value_or(data::FileFormat::Auto);
  TRY(auto source, data::open_files(files));
  return std::shared_ptr<const data::RowSource>(std::move(source));
}

Result<FileNames> file_names(const sdk::DatasetSpec& spec) {
  const auto format = data::file_format(spec.format);
  if (!format) return FileNames{};  // items
  TRY(const auto found, data::find_files(spec.files.paths, *format, spec.files.stores));
  return FileNames{.format = found.format, .paths = found.paths()};
}

Result<FirstRows> first_rows(const data::RowSource& source, std::int64_t rows) {
  FirstRows first;
  arrow::RecordBatchVector parts;
  const auto& unit_rows = source.unit_rows();
  for (std::size_t unit = 0; unit < unit_rows.size() && rows > 0; ++unit) {
    const std::int64_t taken = std::min(rows, unit_rows[unit]);
    if (taken == 0) continue;
    TRY(const auto stream, source.open(static_cast<std::int64_t>(unit), taken));
    TRY(auto part, stream->next(taken));
    parts.push_back(std::move(part));
    first.ranges.push_back({static_cast<std::int64_t>(unit), 0, taken});
    rows -= taken;
  }
  if (parts.empty()) return first;
  ARROW_TRY(first.rows, "cannot join the first rows", arrow::ConcatenateRecordBatches(parts));
  return first;
}

Result<KnownMaps> apply_known_maps(const std::string& name, sdk::DatasetSpec spec,
                                   const std::shared_ptr<const data::RowSource>& source,
                                   const FirstRows& first) {
  KnownMaps maps;
  if (!spec.preprocessors.empty()) {  // they come first, and are fitted when a run begins
    for (const sdk::MapStep& step : spec.preprocessors) maps.names.push_back(step.name);
    for (const sdk::MapStep& step : spec.maps) maps.names.push_back(step.name);
    maps.rows = first.rows;
    return maps;
  }
  for (const sdk::MapStep& step : spec.maps) maps.names.push_back(step.name);
  const auto registered =
      std::find_if(spec.maps.begin(), spec.maps.end(),
                   [](const sdk::MapStep& step) { return built_in_map(step.name) == nullptr; });
  maps.known = static_cast<std::size_t>(registered - spec.maps.begin());
  spec.maps.erase(registered, spec.maps.end());
  TRY(const auto chain, sdk::MapChain::make(name, spec, source));
  TRY(auto mapped, chain->apply({.rows = first.rows,
                                 .valid_rows = first.rows->num_rows(),
                                 .rows_consumed = 0,
                                 .ranges = first.ranges},
                                0));
  maps.rows = std::move(mapped.rows);
  return maps;
}

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace train
