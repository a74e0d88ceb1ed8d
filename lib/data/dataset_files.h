// This file finds the Parquet files of one dataset, checks that they have one schema, and reads
// them a row group at a time. Footers are read once, when the dataset is opened; row groups are
// read on the thread that calls read().
#pragma once

#include "lib/data/row_source.h"

namespace train::data {

struct FilesSpec {
  std::string path;  // a file, a folder (all *.parquet below it), or a glob of files
  std::vector<std::string> columns;  // empty: all
};

/// Return the files that `path` means, sorted by name. In a folder, files and sub-folders whose
/// names begin with '.' or '_' are left out. Fails (NotFound) when there is no file.
Result<std::vector<std::string>> find_files(const std::string& path);

/// Open the files of a dataset. Fails with the file's name if a file is not whole, with the known
/// columns if a column is missing, and with both files' names if selected columns differ in name or
/// type.
Result<std::unique_ptr<RowSource>> open_files(const FilesSpec& spec);

}  // namespace train::data
