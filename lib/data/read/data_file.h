// A file of a dataset, on a file system or in an object store, and how the formats read it.
//
// Reads of an object go through the fetcher (fetcher.h): at most so many requests at once, of at
// most so many bytes each. An error of a store keeps its kind and its hint on its way through Arrow
// (arrow_error.h). No file stays open between two calls, and objects are never open.
#pragma once

#include <arrow/io/type_fwd.h>
#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace train::data {

class ObjectPlace;

struct DataFile {
  std::string path = {};  // as messages name it: of an object, its URL
  // The rest is known of objects only.
  std::shared_ptr<const ObjectPlace> place = {};  // null: a file
  std::int64_t bytes = 0;
  std::string version = {};  // another one for other bytes
};

/// A stretch of an object of which it is known that it will be read.
struct PlannedRange {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  // 0: all of it is fetched at once, and kept while the file is open. Otherwise it is read from its
  // beginning to its end, so many bytes at a time, and as many are fetched ahead.
  std::int64_t window = 0;
  std::int64_t first = 0;  // bytes of the first fetch, if it may be left early; 0: a window
};

/// Return the file's current size; that of an object is what it was when it was listed.
arrow::Result<std::int64_t> size_of(const DataFile& file);

/// Return a number that is another one for another version of an object; 0 for a file.
std::uint64_t digest_of_version(const DataFile& file);

/// Open a file for reads at any place. An object is fetched as `plan` says, whose ranges do not
/// overlap; for other places, as somebody asks for them.
arrow::Result<std::shared_ptr<arrow::io::RandomAccessFile>> open_file(
    const DataFile& file, std::vector<PlannedRange> plan = {});
/// Open a file that is read from its beginning on.
arrow::Result<std::shared_ptr<arrow::io::RandomAccessFile>> open_stream(const DataFile& file);

/// Begin to fetch what open_file() with this plan, or read_at() of one of its ranges, will need
/// soon. Does nothing for files, and if much is expected already.
void expect_reads(const DataFile& file, const std::vector<PlannedRange>& plan);

/// Read up to `bytes` bytes, as there may be fewer.
arrow::Result<std::shared_ptr<arrow::Buffer>> read_at(const DataFile& file, std::int64_t offset,
                                                      std::int64_t bytes);

/// A range of one of several files, which has all of these bytes.
struct WantedRange {
  const DataFile* file = nullptr;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};
/// Read ranges of files, those of objects several at once. The buffers are in the ranges' order.
arrow::Result<std::vector<std::shared_ptr<arrow::Buffer>>> read_all_ranges(
    const std::vector<WantedRange>& ranges);

}  // namespace train::data
