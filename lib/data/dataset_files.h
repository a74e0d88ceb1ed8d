// The Parquet files of one dataset: found, checked to have one schema, and read a row group at a
// time. Footers are read once, when the dataset is opened; row groups by whoever calls read().
#pragma once

#include "lib/data/row_source.h"

namespace train::data {

struct FilesSpec {
  std::string path;  // a file, a folder (all *.parquet below it), or a glob of files
  std::vector<std::string> columns;  // empty: all
};

/// The files that `path` means, sorted by name. In a folder, names that begin with '.' or '_' are
/// left out, sub-folders too. Fails (NotFound) when there is none.
Result<std::vector<std::string>> find_files(const std::string& path);

/// Open the files of a dataset. Fails with the file's name on one that is not whole, on a missing
/// column (listing the known ones), and on files whose selected columns differ in name or type
/// (naming both files).
Result<std::unique_ptr<RowSource>> open_files(const FilesSpec& spec);

}  // namespace train::data
