#include "sdk/data/bad_rows.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

namespace train::sdk {

BadRows::BadRows(std::string dataset, std::shared_ptr<const data::RowSource> source,
                 std::int64_t rows_max)
    : dataset_(std::move(dataset)), source_(std::move(source)), rows_max_(rows_max) {}

Result<Unit> BadRows::add(std::int64_t unit, std::int64_t row, Error why) {
  const std::string place = source_->describe(unit, row);
  if (rows_max_ == 0) {
    Error error = std::move(why).with_context(fmt::format("cannot read {}", place));
    if (error.hint.empty()) error.hint = "the dataset's `on_error` can leave such rows out";
    return error;
  }
  const std::lock_guard lock(mutex_);
  if (!rows_.emplace(unit, row).second) return Unit{};
  if (static_cast<std::int64_t>(rows_.size()) > rows_max_) {
    return Error{Errc::ResourceExhausted,
                 fmt::format("more than {} rows cannot be read; the last is {}: {}", rows_max_,
                             place, why.message),
                 "repair the data, or raise `on_error.rows_max`"};
  }
  std::fprintf(stderr, "trainrun: dataset '%s' leaves out %s: %s\n", dataset_.c_str(),
               place.c_str(), why.message.c_str());
  return Unit{};
}

std::int64_t BadRows::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::int64_t>(rows_.size());
}

}  // namespace train::sdk
