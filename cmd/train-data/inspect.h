// train-run data inspect: what a dataset has, as facts (inspect()), as text and as JSON.
#pragma once

#include <arrow/type_fwd.h>
#include <train/config.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/row_source.h"
#include "sdk/data/dataset_spec.h"

namespace train {

struct InspectedColumn {
  std::string name = {};
  std::string type = {};
  std::string dtype = {};                // as a tensor: "uint8"; empty: no tensor has this type
  std::vector<std::int64_t> shape = {};  // of a row of the first rows
  std::string why = {};                  // the rows are no tensor
};

struct Inspection {
  std::string name = {};
  std::string format = {};
  std::int64_t file_count = 0;
  std::vector<data::FileRows> files = {};  // of `items` and `images`: none
  std::int64_t units = 0, rows = 0, bytes = 0, decoded_bytes = 0;
  std::string filter = {};
  std::int64_t limit = 0;
  std::int64_t rows_before = 0;        // the filter and the limit
  std::vector<std::string> maps = {};  // the preprocessors come first
  bool fits = false;                   // it has preprocessors
  std::size_t known_maps = 0;          // after which the columns are these
  bool maps_fail = false;              // and the columns are those before them
  std::vector<InspectedColumn> columns = {};
  std::shared_ptr<arrow::RecordBatch> first_rows =
      {};  // of the files, before the maps; may be null
  std::vector<std::string> problems = {};
  std::optional<Error> error = {};  // the dataset cannot be opened; then only problems are known
};

/// Look at a dataset, and take its first `rows` rows. The error is about the entry itself.
Result<Inspection> inspect(const std::string& name, const Value& entry, std::int64_t rows);

std::string inspection_text(const Inspection& inspection);
Value inspection_json(const Inspection& inspection);

}  // namespace train
