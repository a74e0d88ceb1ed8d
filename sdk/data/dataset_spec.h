// Reads one entry of the spec's `datasets`, as the supervisor hands it over (WorkerInfo::datasets),
// and opens the dataset.
#pragma once

#include <train/config.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/dataset_files.h"
#include "lib/data/plan/choose_order.h"
#include "lib/data/plan/mix_order.h"
#include "lib/data/row_source.h"
#include "lib/progress/dataset_meters.h"

namespace train::sdk {

/// One step of the dataset's `map`, or of its `preprocessors`.
struct MapStep {
  std::string name = {};
  Dict arguments = {};
  bool operator==(const MapStep&) const = default;
};

struct DatasetSpec {
  std::string format = "auto";  // items, or one of data::file_format()
  data::FilesSpec files = {};   // any other format than items
  List items = {};              // items: the rows
  std::vector<MapStep> maps = {};
  std::vector<MapStep> preprocessors = {};
  std::string preprocessors_from = {};     // the dataset on which they are fitted; empty: this one
  std::int64_t skip_rows_max = 0;          // of on_error; 0: fail
  std::map<std::string, double> mix = {};  // other datasets → weights; empty: no mix
  data::MixEnd mix_end = data::MixEnd::Shortest;
  std::int64_t mix_rows = 0;  // of MixEnd::Rows
  bool split = false;
  bool by_ingest_workers = false;  // they read it for the ranks
  data::OrderWish order = {};
  bool balance = false;                // slow ranks get fewer rows
  bool restart_changed_epoch = false;  // instead of refusing a dataset that has changed within one
};

/// Read the entry; absent and null keys keep their defaults. Throws Failure when a value has the
/// wrong type.
DatasetSpec dataset_spec_from(const Dict& entry);

/// Open the files, or lay the items out as columns. Also fails when there are no rows at all,
/// because training on nothing is a mistake. `meters` count what it does, and what filters do
/// later; null: nobody does.
Result<std::shared_ptr<const data::RowSource>> open_dataset(
    const DatasetSpec& spec, const std::shared_ptr<DatasetMeters>& meters = {});
/// Make what counts the work on this dataset.
std::shared_ptr<DatasetMeters> meters_of(const std::string& dataset, const DatasetSpec& spec,
                                         DataPage& page);

}  // namespace train::sdk
