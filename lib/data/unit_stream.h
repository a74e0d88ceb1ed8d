// The stream of one unit of a file: it cuts what a format decodes into pieces of the size that is
// asked for, and checks that the unit has the rows and the columns that the dataset's opening told.
#pragma once

#include <arrow/type_fwd.h>

#include <memory>
#include <string>

#include "lib/data/row_source.h"

namespace train::data {

struct UnitOfFile {
  std::string doing = {};  // "cannot read row group 3 of /data/a.parquet", for errors
  std::string path = {};
  std::int64_t rows = 0;  // that were counted
  std::shared_ptr<arrow::Schema> schema = {};
};

/// Return the stream of what `decoded` gives.
std::unique_ptr<UnitStream> stream_of(UnitOfFile unit,
                                      std::shared_ptr<arrow::RecordBatchReader> decoded);

}  // namespace train::data
