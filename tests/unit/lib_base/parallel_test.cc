#include "lib/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace train {
namespace {

TEST(InParallel, EachPieceIsDoneOnce) {
  for (const std::size_t count : {0, 1, 2, 1000}) {
    std::vector<std::atomic<int>> done(count);

    in_parallel(count, kParallelMax, [&](std::size_t piece) { return ++done[piece] == 1; });

    for (const auto& one : done) EXPECT_EQ(one, 1);
  }
}

TEST(InParallel, NoMoreThreadsThanAllowedAndNoneForOnePiece) {
  std::mutex mutex;
  std::set<std::thread::id> seen;
  const auto note = [&](std::size_t) {
    const std::lock_guard lock(mutex);
    seen.insert(std::this_thread::get_id());
    return true;
  };
  in_parallel(1, kParallelMax, note);
  in_parallel(10, 1, note);
  in_parallel(10, 0, note);
  EXPECT_EQ(seen, std::set{std::this_thread::get_id()});

  in_parallel(10'000, 100, note);

  EXPECT_LE(seen.size(), kParallelMax);
}

TEST(InParallel, AfterOneThatFailedOnlyThoseBeforeItAreSureToBeDone) {
  constexpr std::size_t kFails = 50;
  for (int again = 0; again < 100; ++again) {
    std::vector<std::atomic<int>> done(1'000'000);

    in_parallel(done.size(), kParallelMax, [&](std::size_t piece) {
      ++done[piece];
      return piece < kFails;
    });

    for (std::size_t piece = 0; piece <= kFails; ++piece) ASSERT_EQ(done[piece], 1) << piece;
    EXPECT_EQ(done.back(), 0);
  }
}

}  // namespace
}  // namespace train
