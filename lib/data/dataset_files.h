// This file finds the files of one dataset, checks that they have one schema, and reads them a unit
// at a time (formats/format_file.h says what a unit is). Opening a dataset reads what tells its
// units and their rows: the footers of Parquet, ORC and Arrow files, the headers of NumPy files and
// of tar archives' members, and all of a text file. Files may lie in object stores (read/).
#pragma once

#include <map>
#include <optional>

#include "lib/data/read/data_file.h"
#include "lib/data/read/object_place.h"
#include "lib/data/row_source.h"

namespace train {
class DatasetMeters;  // lib/progress
}

namespace train::data {

enum class FileFormat { Auto, Parquet, Csv, Json, Arrow, Orc, Numpy, Cifar, Images, WebDataset };

/// Return "parquet", "csv", …
std::string_view to_string(FileFormat format);
/// Return the format of that name.
std::optional<FileFormat> file_format(std::string_view name);

constexpr bool is_text(FileFormat format) {
  return format == FileFormat::Csv || format == FileFormat::Json;
}

struct FilesSpec {
  /// Auto: by the ending of the files' names: .parquet, .csv, .tsv, .json, .jsonl, .ndjson, .arrow,
  /// .feather, .orc, .npy, .tar, .tgz. A .gz, .zst or .bz2 behind that of a text file or an archive
  /// is its compression.
  FileFormat format = FileFormat::Auto;
  std::vector<std::string> paths = {};  // each a file, a folder (all files of the format below it),
                                        // or a glob of files; of objects, their URL
  StoreWish stores = {};                // how object stores are opened
  std::vector<std::string> columns = {};  // empty: all
  // csv, json: column → name of its type (lib/model/column_type.h). Those of the other columns
  // follow from the first MiB of the first file.
  std::map<std::string, std::string> types = {};
  char delimiter = 0;               // csv; 0: a tab in a file named .tsv, else a comma
  bool newlines_in_values = false;  // csv: values in quotes may have line ends
  std::string filter = {};          // lib/model/row_filter.h; empty: all rows
  std::int64_t limit = 0;           // the first rows that pass the filter; 0: all
  int labels = 1;                   // cifar: bytes of labels before each image, 1 or 2
  bool include_paths = false;       // images: with the column path
  /// Counts the work of the filter; null: nobody does.
  std::shared_ptr<DatasetMeters> meters = {};
};

struct FoundFiles {
  FileFormat format = FileFormat::Parquet;  // never Auto
  std::vector<DataFile> files = {};         // sorted by name within each path of the spec
  // For each of them, how many bytes of it name the folder below which the spec's path looks: that
  // of a folder is the folder, that of a pattern or a file ends at the last '/' before any
  // wildcard.
  std::vector<std::size_t> root_bytes = {};

  std::vector<std::string> paths() const;
};

/// Return the files that `paths` stand for. In a folder, skips files and sub-folders whose names
/// begin with '.' or '_'. `{000..127}` in a path stands for each of these numbers. NotFound if a
/// path stands for no file; InvalidArgument if the names tell no format, or two.
Result<FoundFiles> find_files(const std::vector<std::string>& paths, FileFormat format,
                              const StoreWish& stores = {});

/// Open the files of a dataset. The error names the file if it is not whole, its columns if one is
/// missing, and both files if their selected columns differ in name or type.
Result<std::unique_ptr<RowSource>> open_files(const FilesSpec& spec);

}  // namespace train::data
