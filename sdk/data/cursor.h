// A dataset's cursor: what a checkpoint keeps of where a dataset is read, under its metadata's key
// `data`, by the dataset's name:
//
//   {"epoch": 3, "rows": 640, "order": {"version": 2, "layout": "9c…", "shuffle": "window",
//    "seed": 1, "lanes": 16, "block_rows": 2048, "files": [["a.parquet", 1000, 65536], …]}}
//
// `rows` counts the rows of the epoch's order that all ranks together have consumed. A file has its
// path below the folder that all have in common, its rows and its bytes; an object has its version
// (ETag, generation or time) as well; a dataset of many files,
// or with a name that is no UTF-8, has no list of them. Before version 2, `order` was a text, or
// missing. Pure.
#pragma once

#include <train/config.h>

#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/plan/row_order.h"
#include "lib/data/row_source.h"

namespace train::sdk {

inline constexpr std::size_t kCursorFilesMax = 1000;
/// Of all paths of a list: a checkpoint's metadata may have 1 MiB, for all datasets and the user.
inline constexpr std::size_t kCursorPathBytesMax = 64u << 10;

/// What a dataset is now.
struct DatasetLayout {
  data::UnitLayout units = {};
  std::string digest = {};  // of units
  std::vector<data::FileRows> files = {};
};
DatasetLayout layout_of(const data::RowSource& source);

/// Return the member `order` of a cursor.
Dict cursor_order(const DatasetLayout& layout, const data::OrderSpec& order);

struct Cursor {
  std::uint64_t epoch = 0;
  std::int64_t rows_consumed = 0;
  std::optional<data::OrderSpec> order = {};  // none: a cursor of version 1
  std::string digest = {};                    // of the layout, or of version 1; empty: unknown
  std::optional<std::vector<data::FileRows>> files = {};  // without units; none: unknown
};

/// Read a cursor. Nothing if the value is none, since versions before the SDK's own let users'
/// metadata have the key. An error if a newer version wrote it, or if its order cannot be.
Result<std::optional<Cursor>> read_cursor(const Value& value);

/// Return why the rows that `cursor` counts are not those of `layout`: which files came, went or
/// changed; nothing if they are the same. `shuffle` and `seed` are the spec's, for cursors of
/// version 1.
std::optional<std::string> difference(const Cursor& cursor, const DatasetLayout& layout,
                                      bool shuffle, std::uint64_t seed);

}  // namespace train::sdk
