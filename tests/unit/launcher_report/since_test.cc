#include "launcher/report/since.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

#include "lib/base/time.h"

namespace train {
namespace {

using std::chrono::hours;
using std::chrono::minutes;

const auto kNow = parse_utc("2026-11-26T12:00:00.000000Z");

std::string since(std::string_view text) {
  const auto time = parse_since(text, kNow);
  return time ? format_utc(*time) : time.error().message;
}

TEST(Since, TakesDurations) {
  EXPECT_EQ(since("5m"), format_utc(kNow - minutes(5)));
  EXPECT_EQ(since("1h30m"), format_utc(kNow - minutes(90)));
  EXPECT_EQ(since("2d"), format_utc(kNow - hours(48)));
  EXPECT_EQ(since("90s500ms"), format_utc(kNow - milliseconds(90'500)));
  EXPECT_EQ(since("0s"), format_utc(kNow));
}

TEST(Since, TakesTimesOfTwoCenturies) {
  EXPECT_EQ(since("1970-01-01T00:00Z"), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(since("2200-12-31T23:59Z"), "2200-12-31T23:59:00.000000Z");
}

TEST(Since, TakesTimesWithAndWithoutAZone) {
  ::setenv("TZ", "UTC-2", 1);  // two hours east
  ::tzset();
  EXPECT_EQ(since("2026-11-26T10:00"), "2026-11-26T08:00:00.000000Z");
  EXPECT_EQ(since("2026-11-26 10:00:30.25"), "2026-11-26T08:00:30.250000Z");
  EXPECT_EQ(since("2026-11-26"), "2026-11-25T22:00:00.000000Z");
  EXPECT_EQ(since("2026-11-26T10:00Z"), "2026-11-26T10:00:00.000000Z");
  EXPECT_EQ(since("2026-11-26T10:00:00+01:00"), "2026-11-26T09:00:00.000000Z");
  EXPECT_EQ(since("2026-11-26T10:00-05:30"), "2026-11-26T15:30:00.000000Z");
  ::unsetenv("TZ");
  ::tzset();
}

TEST(Since, ADurationIsAtMostACentury) {
  const std::string century = format_utc(kNow - hours(24 * 36'525));
  std::string longest;
  for (int i = 0; i < 200; ++i) longest += "999999d";
  EXPECT_EQ(since("36524d"), format_utc(kNow - hours(24 * 36'524)));
  EXPECT_EQ(since("999999d"), century);
  EXPECT_EQ(since(longest), century);
}

TEST(Since, TakesNothingElse) {
  for (const std::string text : {"",
                                 "5",
                                 "m",
                                 "-5m",
                                 "5 m",
                                 "5 parsecs",
                                 "1h30",
                                 "1234567s",
                                 "26-11-2026",
                                 "2026-13-01",
                                 "2201-01-01",
                                 "9999-12-31T23:59",
                                 "2026-04-31",
                                 "2026-11-26T",
                                 "2026-11-26T25:00",
                                 "2026-11-26T10:60",
                                 "2026-11-26T10:00:61",
                                 "2026-11-26T10:00x",
                                 "2026-11-26T10:00+1",
                                 "2026-11-26T10:00+0100",
                                 "2026-11-26T10:00:00.1234567",
                                 "yesterday"})
    EXPECT_EQ(since(text), "'" + text + "' is neither a duration nor a time");
}

}  // namespace
}  // namespace train
