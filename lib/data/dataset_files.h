// This file finds the Parquet files of one dataset, checks that they have one schema, and reads
// them a row group at a time. It reads footers once, when the dataset is opened, and row groups on
// the thread that calls read().
#pragma once

#include "lib/data/row_source.h"

namespace train::data {

struct FilesSpec {
  std::string path;  // a file, a folder (all *.parquet below it), or a glob of files
  std::vector<std::string> columns;  // empty: all
};

/// Return the files that `path` stands for, sorted by name. In a folder, skips files and
/// sub-folders whose names begin with '.' or '_'. NotFound if there is no file.
Result<std::vector<std::string>> find_files(const std::string& path);

/// Open the files of a dataset. The error names the file if it is not whole, its columns if one is
/// missing, and both files if their selected columns differ in name or type.
Result<std::unique_ptr<RowSource>> open_files(const FilesSpec& spec);

}  // namespace train::data
