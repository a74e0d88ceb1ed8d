// The kernel's records of samples.
#include "lib/profile/sampling/perf_records.h"

#include <gtest/gtest.h>
#include <linux/perf_event.h>

namespace train {
namespace {

std::string bytes_of(std::uint64_t value, std::size_t size = 8) {
  return std::string(reinterpret_cast<const char*>(&value), size);
}

std::string record(std::uint32_t type, const std::string& body) {
  return bytes_of(type, 4) + bytes_of(0, 2) + bytes_of(body.size() + 8, 2) + body;
}

/// A sample of thread 12, whose registers hold 100, 101, … in the order of perf.
std::string sample(std::uint64_t abi, const std::string& stack, std::uint64_t valid) {
  std::string body = bytes_of(11, 4) + bytes_of(12, 4) + bytes_of(abi);
  if (abi != PERF_SAMPLE_REGS_ABI_NONE)
    for (std::uint64_t i = 0; i < 17; ++i) body += bytes_of(100 + i);
  body += bytes_of(stack.size()) + stack;
  if (!stack.empty()) body += bytes_of(valid);
  return record(PERF_RECORD_SAMPLE, body);
}

std::vector<ThreadCapture> read(const std::string& records, PerfCounts& counts) {
  std::vector<ThreadCapture> found;
  read_perf_records(
      records, [&](ThreadCapture one) { found.push_back(std::move(one)); }, counts);
  return found;
}

TEST(PerfRecords, ASampleHasRegistersAndStack) {
  PerfCounts counts;
  const auto found = read(sample(PERF_SAMPLE_REGS_ABI_64, "stack...", 5), counts);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].facts.tid, 12);
  EXPECT_EQ(found[0].stack, "stack");
  // rax rdx rcx rbx rsi rdi rbp rsp r8 to r15 rip; perf: ax bx cx dx si di bp sp ip r8 to r15
  EXPECT_EQ(found[0].registers,
            (std::vector<std::uint64_t>{100, 103, 102, 101, 104, 105, 106, 107, 109, 110, 111, 112,
                                        113, 114, 115, 116, 108}));
  EXPECT_EQ(found[0].sp, 107u);
  EXPECT_EQ(found[0].stack_start, 107u);
  EXPECT_EQ(found[0].pc, 108u);
}

TEST(PerfRecords, CountLostSamplesAndPassOverOthers) {
  PerfCounts counts;
  const auto found = read(
      record(PERF_RECORD_LOST, bytes_of(1) + bytes_of(3)) + record(PERF_RECORD_EXIT, "whatever") +
          sample(PERF_SAMPLE_REGS_ABI_NONE, "", 0) + sample(PERF_SAMPLE_REGS_ABI_64, "12345678", 8),
      counts);
  EXPECT_EQ(found.size(), 1u);
  EXPECT_EQ(counts.lost, 3u);
}

TEST(PerfRecords, EndWhereARecordIsNotComplete) {
  PerfCounts counts;
  const std::string records = sample(PERF_SAMPLE_REGS_ABI_64, "12345678", 8);
  for (std::size_t size = 0; size < records.size(); ++size)
    EXPECT_TRUE(read(records.substr(0, size), counts).empty()) << size;
  EXPECT_TRUE(read(std::string(64, '\0'), counts).empty());  // a record of no bytes
}

TEST(PerfRecords, NoMoreOfTheStackIsValidThanThereIs) {
  PerfCounts counts;
  const auto found = read(sample(PERF_SAMPLE_REGS_ABI_64, "12345678", 1u << 20), counts);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].stack, "12345678");
}

}  // namespace
}  // namespace train
