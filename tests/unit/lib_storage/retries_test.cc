#include "lib/storage/remote/retries.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace train::remote {
namespace {

TEST(Retries, PausesDoubleFromATenthOfASecondToTenSeconds) {
  EXPECT_EQ(pause_before(0), milliseconds(100));
  for (int tries = 1; pause_before(tries) < seconds(10); ++tries) {
    ASSERT_LT(tries, 8);
    EXPECT_EQ(pause_before(tries), 2 * pause_before(tries - 1)) << tries;
  }
  for (const std::int64_t tries : {7L, 8L, 63L, 64L, std::numeric_limits<std::int64_t>::max()})
    EXPECT_EQ(pause_before(tries), seconds(10)) << tries;
}

TEST(Retries, ChanceTakesUpToHalfOfAPause) {
  for (int i = 0; i < 1000; ++i) {
    const Duration pause = with_chance(seconds(10));
    EXPECT_GE(pause, seconds(5));
    EXPECT_LE(pause, seconds(10));
  }
}

TEST(Retries, ThePausesUntilTheTimeoutTakeAsLongAsItAndOneMoreAtMost) {
  for (const Duration retry_timeout : {Duration(seconds(300)), Duration(seconds(15))}) {
    Duration waited{};
    std::int64_t tries = 0;
    for (; may_try_again(tries, retry_timeout); ++tries) {
      ASSERT_LT(tries, 1000);
      waited += pause_before(tries);
    }
    EXPECT_GE(waited, retry_timeout);
    EXPECT_LE(waited, retry_timeout + seconds(10));
    EXPECT_FALSE(may_try_again(tries + 1, retry_timeout)) << "and then never again";
  }
}

TEST(Retries, WithoutATimeoutNothingIsTriedTwice) {
  EXPECT_FALSE(may_try_again(0, Duration{0}));
  int calls = 0, told = 0;
  ObjectStoreOptions options;
  options.retry_timeout = Duration{0};
  options.on_retry = [&](const std::string&) { ++told; };
  const auto done = insist(options, [&]() -> Result<Unit> {
    ++calls;
    return Error{Errc::Unavailable, "503 Slow Down"};
  });
  EXPECT_EQ(done.error().code, Errc::Unavailable);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(told, 0);
}

TEST(Retries, OnlyWhatMayPassIsTriedAgain) {
  std::vector<Errc> errors{Errc::Unavailable, Errc::Unavailable, Errc::Permission};
  std::size_t calls = 0;
  std::vector<std::string> told;
  ObjectStoreOptions options;
  options.on_retry = [&](const std::string& text) { told.push_back(text); };
  const auto done = insist(options, [&]() -> Result<Unit> {
    return Error{errors.at(calls++), "no"};
  });
  EXPECT_EQ(done.error().code, Errc::Permission);
  EXPECT_EQ(calls, 3u);
  EXPECT_EQ(told, (std::vector<std::string>{"no; trying again", "no; trying again"}));
}

TEST(Retries, AtTheEndOfTheProgramNothingIsTriedAgain) {
  no_more_tries = true;
  EXPECT_FALSE(may_try_again(0, seconds(300)));
  no_more_tries = false;
  EXPECT_TRUE(may_try_again(0, seconds(300)));
}

}  // namespace
}  // namespace train::remote
