#include "launcher/cluster/run/dated_files.h"

#include <gtest/gtest.h>

namespace train {
namespace {

TEST(DatedFiles, AreNamedAfterTheirTimeInUtc) {
  using namespace std::chrono;
  const system_clock::time_point wall =
      sys_days(year(2026) / 11 / 26) + hours(10) + minutes(15) + milliseconds(123);
  EXPECT_EQ(dated_stem("/run/stacks", wall, "rank3"), "/run/stacks/20261126-101500.123-rank3");
  EXPECT_EQ(dated_stem("/run/stacks", sys_days(year(2026) / 1 / 2), "T-x:"),
            "/run/stacks/20260102-000000.000-T-x:");
}

}  // namespace
}  // namespace train
