// If the unwinder falls behind, samples are lost and not memory.
#include "lib/profile/sampling/sample_queue.h"

#include <gtest/gtest.h>

namespace train {
namespace {

SampleBatch batch_of(std::size_t bytes) {
  SampleBatch batch{.samples = {1}};
  batch.process.threads.push_back({.stack = std::string(bytes, 'x')});
  return batch;
}

TimePoint soon() { return std::chrono::steady_clock::now() + seconds{60}; }

TEST(SampleQueue, HoldsSoMuchAndNoMore) {
  SampleQueue queue;
  int taken = 0;
  while (queue.push(batch_of(8u << 20))) ++taken;
  EXPECT_EQ(taken, 7);
  EXPECT_TRUE(queue.pop(soon()).has_value());
  EXPECT_TRUE(queue.push(batch_of(8u << 20)));
}

// A process can have many mappings of files with long names.
TEST(SampleQueue, CountsMappings) {
  SampleBatch batch = batch_of(1);
  batch.process.mappings.assign(4096, {.path = std::string(4095, 'x')});
  SampleQueue queue;
  int taken = 0;
  while (taken < 100 && queue.push(batch)) ++taken;
  EXPECT_EQ(taken, 3);
}

TEST(SampleQueue, GivesWhatIsLeftAfterItsEnd) {
  SampleQueue queue;
  EXPECT_TRUE(queue.push(batch_of(1)));
  queue.close();
  EXPECT_FALSE(queue.push(batch_of(1)));
  EXPECT_TRUE(queue.pop(soon()).has_value());
  EXPECT_FALSE(queue.pop(soon()).has_value());
}

TEST(SampleQueue, DoesNotWaitForEver) {
  SampleQueue queue;
  EXPECT_FALSE(queue.pop(std::chrono::steady_clock::now()).has_value());
  EXPECT_FALSE(queue.closed());
}

}  // namespace
}  // namespace train
