#include "lib/data/plan/read_plan.h"

#include <algorithm>

namespace train::data {

std::int64_t open_blocks_of(const RowOrder& order, const StepDivision& division) {
  if (order.spec().shuffle == Shuffle::Rows) return order.units();
  if (order.spec().lanes == 1) return std::min<std::int64_t>(2, order.units());
  return division.own_lanes(order.spec().lanes);
}

}  // namespace train::data
