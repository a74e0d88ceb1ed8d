// Opens the datasets of a request, which are entries of launcher/spec's datasets_json().
#pragma once

#include <arrow/type_fwd.h>
#include <train/config.h>

#include <memory>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/dataset_files.h"
#include "lib/data/plan/row_order.h"
#include "lib/data/row_source.h"
#include "sdk/data/dataset_spec.h"

namespace train {

/// Read an entry of `datasets`.
Result<sdk::DatasetSpec> read_dataset_spec(const Value& entry);

/// Open the dataset, also one without rows.
Result<std::shared_ptr<const data::RowSource>> open_rows(const sdk::DatasetSpec& spec);

/// The names of a dataset's files.
struct FileNames {
  data::FileFormat format = data::FileFormat::Auto;  // which the names tell if the spec does not;
                                                     // Auto for `items`
  std::vector<std::string> paths = {};
};
Result<FileNames> file_names(const sdk::DatasetSpec& spec);

/// Some rows of a source, in the order of the files.
struct FirstRows {
  std::shared_ptr<arrow::RecordBatch> rows;  // null: there are none
  std::vector<data::RowRange> ranges = {};   // where they are from
};
Result<FirstRows> first_rows(const data::RowSource& source, std::int64_t rows);

/// What a dataset's preprocessors and maps make of its rows, as far as can be told without the
/// user's program and without fitting: up to the first preprocessor, or map that the program
/// registers.
struct KnownMaps {
  std::vector<std::string> names = {};  // of all
  std::size_t known = 0;                // of the first of them
  std::shared_ptr<arrow::RecordBatch> rows;
};
Result<KnownMaps> apply_known_maps(const std::string& name, sdk::DatasetSpec spec,
                                   const std::shared_ptr<const data::RowSource>& source,
                                   const FirstRows& first);

/// Return "1 file", "2 files".
std::string counted(std::int64_t count, std::string_view noun);

}  // namespace train
