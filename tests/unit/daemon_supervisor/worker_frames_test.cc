#include "daemon/supervisor/workers/worker_frames.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "daemon/supervisor/workers/worker_slot.h"
#include "lib/progress/progress_clock.h"
#include "lib/progress/progress_writer.h"

namespace train {
namespace {

TEST(WorkerFrames, TheRankIsTheConnectionsWhateverTheFrameSays) {
  for (const std::int32_t said : {-1000000, -3, 0, 2, 2000000000}) {
    WorkerResult result;
    result.rank = said;
    result.json = "{}";
    Frame frame = encode(result, Attempt{3});
    const auto message = decode_from<WorkerResult>(Rank{2}, frame);
    ASSERT_TRUE(message);
    EXPECT_EQ(message->rank, 2);
    EXPECT_EQ(decode<WorkerResult>(frame)->rank, 2);
    EXPECT_EQ(decode<WorkerResult>(frame)->json, "{}");
    EXPECT_EQ(frame.attempt, Attempt{3});
  }
}

TEST(WorkerFrames, OneThatOutgrowsAFrameWithItsRankIsRefused) {
  WorkerResult result;
  result.json = std::string(kFramePayloadBytesMax - encode(result, Attempt{3}).payload.size(), 'x');
  while (encode(result, Attempt{3}).payload.size() > kFramePayloadBytesMax) result.json.pop_back();
  while (encode(result, Attempt{3}).payload.size() < kFramePayloadBytesMax) result.json += 'x';
  Frame frame = encode(result, Attempt{3});

  EXPECT_EQ(decode_from<WorkerResult>(Rank{60000}, frame).error().code, Errc::Protocol);
}

TEST(WorkerFrames, ReportsGoOnWhereTheLastEnded) {
  const auto batch = [](std::uint64_t first, std::uint32_t count) {
    return ReportBatch{.rank = 0, .first_report_seq = first, .count = count, .data = ""};
  };
  EXPECT_TRUE(check_reports(batch(1, 1), 0));
  EXPECT_TRUE(check_reports(batch(8, 3), 7));
  EXPECT_TRUE(check_reports(batch(7, 3), 7));  // the launcher drops known ones
  EXPECT_FALSE(check_reports(batch(9, 1), 7));
  EXPECT_FALSE(check_reports(batch(8, 0), 7));
  EXPECT_FALSE(check_reports(batch(0, 1), 7));
  EXPECT_FALSE(check_reports(batch(~std::uint64_t{0}, 2), 7));
}

TEST(WorkerFrames, AStagedFolderIsTheOneThatWasGiven) {
  const std::string staging = "/runs/r/checkpoints/.staging-3/rank-0001";
  CheckpointStaged staged;
  staged.checkpoint_seq = 2;
  staged.dir = staging + "/ckpt-2";
  EXPECT_TRUE(check_staged(staging, staged));
  for (const char* other :
       {"/home/user", "/", "", "/runs/r/checkpoints/.staging-3/rank-0001/ckpt-3",
        "/runs/r/checkpoints/.staging-3/rank-0001/../rank-0000/ckpt-2",
        "/runs/r/checkpoints/.staging-3/rank-0001/ckpt-2/.."}) {
    staged.dir = other;
    EXPECT_FALSE(check_staged(staging, staged)) << other;
  }
  staged.dir = staging + "/ckpt-2";
  staged.metadata_json.assign(kWorkerTextBytesMax + 1, 'x');
  const auto refused = check_staged(staging, staged);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "the metadata of checkpoint 2 has 1048577 bytes; at most 1048576 are allowed");
}

TEST(WorkerFrames, CallsWithoutEndAreRefused) {
  EXPECT_TRUE(check_calls(kUnansweredCallsMax - 1, kCallBytesMax));
  EXPECT_FALSE(check_calls(kUnansweredCallsMax, 1));
  EXPECT_FALSE(check_calls(0, kCallBytesMax + 1));
}

class ErrorFile : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/err-XXXXXX";
    folder_ = ::mkdtemp(name);
    path_ = folder_ + "/error.json";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_, path_;
};

TEST_F(ErrorFile, IsReadAsTorchelasticWritesIt) {
  std::ofstream(path_)
      << R"({"message": {"message": "boom", "extraInfo": {"py_callstack": "at x"}}})";
  const auto error = read_error_file(path_);
  ASSERT_TRUE(error);
  EXPECT_EQ(*error, (UserError{"boom", "", "at x"}));
}

TEST_F(ErrorFile, OfAnotherShapeSaysWhatItCan) {
  std::ofstream(path_) << R"({"message": "boom"})";
  EXPECT_EQ(*read_error_file(path_), (UserError{"boom", "", ""}));
  std::ofstream(path_) << R"({"message": {"message": "boom", "extraInfo": 7}})";
  EXPECT_EQ(*read_error_file(path_), (UserError{"boom", "", ""}));
  std::ofstream(path_) << R"({"message": {"extraInfo": {"timestamp": 7}}})";
  EXPECT_EQ(*read_error_file(path_), (UserError{"", "", ""}));
  std::ofstream(path_) << R"({"message": {"message": 7, "extraInfo": {"py_callstack": 7}}})";
  EXPECT_EQ(*read_error_file(path_), (UserError{"", "", ""}));
  for (const char* useless :
       {"", "{}", "[]", "boom", R"({"message": 7})", R"({"massage": "boom"})"}) {
    std::ofstream(path_) << useless;
    EXPECT_FALSE(read_error_file(path_)) << useless;
  }
}

TEST_F(ErrorFile, AFifoIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(read_error_file(path_));
}

TEST_F(ErrorFile, OfAHugeOneNothingIsRead) {
  std::ofstream(path_) << "{";
  ASSERT_EQ(::truncate(path_.c_str(), std::int64_t{1} << 40), 0);  // sparse
  EXPECT_FALSE(read_error_file(path_));
}

TEST_F(ErrorFile, ALinkIsNotFollowed) {
  std::ofstream(folder_ + "/other") << R"({"message": "somebody's"})";
  ASSERT_EQ(::symlink("other", path_.c_str()), 0);
  EXPECT_FALSE(read_error_file(path_));
}

TEST(ExitMessage, SaysHowFarTheProgramWasAndHowLongAgoItEnded) {
  WorkerSlot slot;
  slot.exit = TellExited{};
  slot.progress.emplace(*ProgressMemory::make());
  const std::uint64_t began = progress_now();
  ProgressWriter writer(slot.progress->page(), began);
  writer.end_step(StepSource::Program, began + 1);
  slot.reaped_ns = began + 2;

  const WorkerExited message = exit_message(slot);

  EXPECT_EQ(message.progress.steps, 1u);
  EXPECT_GE(message.ended_us, 0);
  EXPECT_LE(message.ended_us, static_cast<std::int64_t>((progress_now() - slot.reaped_ns) / 1000));
}

TEST(ExitMessage, OfALongErrorTextCarriesItsBeginning) {
  WorkerSlot seat;
  seat.exit = TellExited{};
  seat.reaped_at += std::chrono::seconds(7);
  seat.error = UserError{std::string(3u << 20, 'x'), "E", std::string(3u << 20, 's')};
  const Frame frame = encode(exit_message(seat), Attempt{0});
  EXPECT_LT(frame.payload.size(), 1u << 20);
  const auto message = decode<WorkerExited>(frame);
  EXPECT_TRUE(message->end.error->what.ends_with("x..."));
  EXPECT_EQ(message->end.wall_us, 7'000'000);
}

}  // namespace
}  // namespace train
