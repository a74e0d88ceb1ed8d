#include "launcher/report/line_filter.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace train {
namespace {

TEST(LineFilter, FindsALineByAnyPartOfIt) {
  const auto filter = LineFilter::parse("(?i)error|loss=[0-9]+$").value();
  EXPECT_TRUE(filter.matches("an Error here"));
  EXPECT_TRUE(filter.matches("loss=12"));
  EXPECT_FALSE(filter.matches("loss=12 "));
  EXPECT_FALSE(filter.matches(""));
}

TEST(LineFilter, SaysWhatIsWrongWithAnExpression) {
  EXPECT_EQ(LineFilter::parse("loss[").error().message,
            "'loss[' is no regular expression: missing ]: [");
  EXPECT_EQ(LineFilter::parse(std::string(5000, 'x')).error().message,
            "the regular expression has 5000 bytes, more than 4096");
  EXPECT_FALSE(LineFilter::parse("(x{1000}){1000}"));
}

TEST(LineFilter, NeedsNoMoreTimeForAHostilePair) {
  const auto filter = LineFilter::parse("^(a+)+(a|aa)*b$").value();
  const auto begun = std::chrono::steady_clock::now();

  EXPECT_FALSE(filter.matches(std::string(8192, 'a')));

  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(10));
}

}  // namespace
}  // namespace train
