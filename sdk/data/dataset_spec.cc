#include "sdk/data/dataset_spec.h"

#include <arrow/compute/initialize.h>
#include <fmt/format.h>

#include <numeric>

#include "lib/data/arrow_error.h"
#include "lib/data/dataset_files.h"
#include "sdk/data/items_rows.h"

namespace train::sdk {

DatasetSpec dataset_spec_from(const Dict& entry) {
  const Config config(entry);
  DatasetSpec spec;
  spec.format = config.get<std::string>("format", spec.format);
  spec.path = config.get<std::string>("path", spec.path);
  spec.columns = config.get<std::vector<std::string>>("columns", spec.columns);
  spec.items = config.get<List>("items", spec.items);
  spec.split = config.get<bool>("split", spec.split);
  spec.shuffle = config.get<bool>("shuffle", spec.shuffle);
  spec.shuffle_seed = config.get<std::uint64_t>("shuffle_seed", spec.shuffle_seed);
  return spec;
}

Result<std::shared_ptr<const data::RowSource>> open_dataset(const DatasetSpec& spec) {
  // registers the gather kernels; cheap if it is done already
  if (const arrow::Status ready = arrow::compute::Initialize(); !ready.ok())
    return data::error_from(ready, "cannot set up Arrow");
  std::shared_ptr<const data::RowSource> source;
  if (spec.format == "parquet") {
    TRY(source, data::open_files({.path = spec.path, .columns = spec.columns}));
  } else if (spec.format == "items") {
    TRY(auto rows, rows_from_items(spec.items, spec.columns));
    source = std::make_shared<data::MemorySource>(std::move(rows));
  } else {
    return Error{Errc::InvalidArgument, fmt::format("its format is '{}'", spec.format),
                 "parquet and items can be read"};
  }
  const auto& rows = source->group_rows();
  if (std::accumulate(rows.begin(), rows.end(), std::int64_t{0}) == 0) {
    return Error{Errc::InvalidArgument, spec.format == "items"
                                            ? "it has no items"
                                            : fmt::format("{} has no rows", spec.path)};
  }
  return source;
}

}  // namespace train::sdk
