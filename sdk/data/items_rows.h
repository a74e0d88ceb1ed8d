// Turns the rows in the spec itself (`format: items`) into Arrow columns.
#pragma once

#include <arrow/type_fwd.h>
#include <train/config.h>

#include <memory>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace train::sdk {

/// Make one row per item. Items are dicts, key → column, where a missing key is null; or they are
/// plain values or lists, which become the column "item" (as in Ray's from_items). Types follow the
/// values: bool, int64, float64 (also where integers and floats mix), string, and lists of one of
/// these, to any depth. Errors name the item and the column. `columns`: those to keep, in this
/// order; empty: all, sorted by name.
Result<std::shared_ptr<arrow::RecordBatch>> rows_from_items(
    const List& items, const std::vector<std::string>& columns);

}  // namespace train::sdk
