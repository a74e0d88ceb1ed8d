// What an ingest worker makes of a dataset: parts of the batches of ranks, decoded, preprocessed as
// the rank says, and mapped.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "lib/data/serve/part_reader.h"
#include "sdk/data/cursor.h"
#include "sdk/data/dataset_spec.h"
#include "sdk/data/map_chain.h"

namespace train::sdk {

class ServedDataset {
 public:
  /// Open the dataset of this entry of the spec.
  static Result<std::unique_ptr<ServedDataset>> open(std::string name, const Dict& entry);

  /// Make what reads a rank's pass. Any thread.
  Result<std::unique_ptr<data::PartReader>> open_pass(const data::OpenPass& pass);

 private:
  ServedDataset(std::string name, DatasetSpec spec, std::shared_ptr<const data::RowSource> source);
  Result<std::shared_ptr<const MapChain>> maps_for(const std::string& preprocessors);

  const std::string name_;
  const DatasetSpec spec_;
  const std::shared_ptr<const data::RowSource> source_;
  const DatasetLayout layout_;
  std::mutex mutex_;  // guards the two below
  std::string preprocessors_;
  std::shared_ptr<const MapChain> maps_;  // with these preprocessors
};

}  // namespace train::sdk
