#include "daemon/supervisor/core/ingest_restarts.h"

#include <gtest/gtest.h>

namespace train {
namespace {

constexpr TimePoint kStart{seconds(1000)};
using Next = IngestRestarts::Next;

TEST(IngestRestarts, TheFirstDeathCostsNoTime) {
  IngestRestarts restarts;

  EXPECT_EQ(restarts.ended(kStart, kStart + seconds(5)), (Next{milliseconds(100), false}));
  EXPECT_EQ(restarts.deaths(), 1u);
}

TEST(IngestRestarts, ThreeDeathsInAMinuteMakeTheWaitLongAndLonger) {
  IngestRestarts restarts;
  TimePoint now = kStart;
  std::vector<Next> waits;
  for (int i = 0; i < 7; ++i) {
    waits.push_back(restarts.ended(now, now + seconds(1)));
    now += seconds(1) + waits.back().wait;
  }

  EXPECT_EQ(waits, (std::vector<Next>{{milliseconds(100), false},
                                      {seconds(1), false},
                                      {seconds(10), true},
                                      {seconds(20), true},
                                      {seconds(40), true},
                                      {seconds(60), true},
                                      {seconds(60), true}}));
}

TEST(IngestRestarts, DeathsThatAreFarApartStayQuick) {
  IngestRestarts restarts;
  TimePoint now = kStart;
  for (int i = 0; i < 10; ++i) {
    const TimePoint began = now;
    now += seconds(61);
    EXPECT_EQ(restarts.ended(began, now), (Next{milliseconds(100), false}));
  }
  EXPECT_EQ(restarts.deaths(), 10u);
}

TEST(IngestRestarts, ALongLifeEndsTheLongWaits) {
  IngestRestarts restarts;
  for (int i = 0; i < 4; ++i) restarts.ended(kStart, kStart + seconds(i));

  EXPECT_EQ(restarts.ended(kStart + seconds(10), kStart + seconds(100)),
            (Next{milliseconds(100), false}));
}

}  // namespace
}  // namespace train
