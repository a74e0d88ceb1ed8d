// What a batch consists of if some of its rows cannot be decoded. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace train::data {

struct KeptRows {
  /// The rows of the new batch, as rows of the old one: first those that stay, in their order; then
  /// repeats of them, up to as many as there were. Empty if nothing is left to repeat.
  std::vector<std::int64_t> order = {};
  std::int64_t valid_rows = 0;
};

/// Leave the rows `is_bad` out of a batch, of whose rows the first `valid_rows` are valid.
inline KeptRows kept_rows(const std::vector<bool>& is_bad, std::int64_t valid_rows) {
  KeptRows kept;
  const auto rows = static_cast<std::int64_t>(is_bad.size());
  const auto take_good = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      if (!is_bad[static_cast<std::size_t>(row)]) kept.order.push_back(row);
  };
  take_good(0, valid_rows);
  kept.valid_rows = static_cast<std::int64_t>(kept.order.size());
  if (kept.order.empty() && rows > 0) take_good(rows - 1, rows);
  const std::size_t good = kept.order.size();
  if (good == 0) return kept;
  while (kept.order.size() < is_bad.size())
    kept.order.push_back(kept.order[kept.order.size() - good]);
  return kept;
}

}  // namespace train::data
