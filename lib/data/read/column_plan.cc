#include "lib/data/read/column_plan.h"

#include <algorithm>

namespace train::data {
namespace {

constexpr std::int64_t kHoleMax = 64 << 10;  // that is fetched in order to make one request of two
constexpr std::int64_t kWindowMin = 64 << 10;

}  // namespace

std::vector<PlannedRange> plan_columns(std::vector<ColumnBytes> columns, std::int64_t size) {
  std::sort(columns.begin(), columns.end(),
            [](const auto& a, const auto& b) { return a.offset < b.offset; });
  std::vector<ColumnBytes> valid;
  double all = 0;
  std::int64_t end = 0;
  for (const ColumnBytes& column : columns) {
    if (column.offset < end || column.bytes <= 0 || column.offset > size ||
        column.bytes > size - column.offset)
      continue;
    end = column.offset + column.bytes;
    all += static_cast<double>(column.bytes);
    valid.push_back(column);
  }
  std::vector<PlannedRange> plan;
  const auto budget = static_cast<double>(kUnitFetchBytes);
  for (const ColumnBytes& column : valid) {
    // One window is read from while the next one is fetched.
    const double share = budget / 2 * static_cast<double>(column.bytes) / all;
    const std::int64_t window = std::max(kWindowMin, static_cast<std::int64_t>(share));
    const bool whole = all <= budget || column.bytes <= window;
    if (!whole) {
      plan.push_back({column.offset, column.bytes, window});
      continue;
    }
    const std::int64_t end_before = plan.empty() ? 0 : plan.back().offset + plan.back().bytes;
    if (!plan.empty() && plan.back().window == 0 && column.offset - end_before <= kHoleMax)
      plan.back().bytes = column.offset + column.bytes - plan.back().offset;
    else
      plan.push_back({column.offset, column.bytes, 0});
  }
  return plan;
}

}  // namespace train::data
