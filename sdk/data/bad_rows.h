// What follows if a row cannot be decoded: an error, or with `on_error: {rows: skip}` a line on
// stderr and one more row that is left out, up to a limit.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "lib/base/result.h"
#include "lib/data/row_source.h"

namespace train::sdk {

class BadRows {
 public:
  /// `rows_max`: how many rows may be left out; 0: none.
  BadRows(std::string dataset, std::shared_ptr<const data::RowSource> source,
          std::int64_t rows_max);

  /// Leave a row of a unit out, or return the error that ends the pass. A row counts once, however
  /// often it is met.
  Result<Unit> add(std::int64_t unit, std::int64_t row, Error why);
  /// Return whether any row may be left out.
  bool may_leave_out() const { return rows_max_ > 0; }
  /// Return how many rows are left out so far.
  std::int64_t count() const;

 private:
  const std::string dataset_;
  const std::shared_ptr<const data::RowSource> source_;
  const std::int64_t rows_max_;
  mutable std::mutex mutex_;  // a pass that has ended may still read
  std::set<std::pair<std::int64_t, std::int64_t>> rows_;
};

}  // namespace train::sdk
