// A worker sends without end while nobody acknowledges. The supervisor ends its connection, uses a
// bounded amount of memory, and lives on.
#include "daemon/supervisor/workers/worker_frames.h"
#include "tests/unit/daemon_supervisor/worker_link.h"

namespace train {
namespace {

constexpr std::size_t kMiB = 1u << 20;
constexpr std::uint64_t kTooMany = 100;  // frames of 1 MiB

class WorkerFlood : public WorkerLink {
 protected:
  /// Send reports of 1 MiB each until one cannot be sent. Return the last one sent.
  std::uint64_t report(std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t report_seq = from; report_seq <= to; ++report_seq) {
      if (!say(ReportBatch{0, report_seq, 1, std::string(kMiB, 'r')})) return report_seq - 1;
    }
    return to;
  }
};

TEST_F(WorkerFlood, OfReportsThatNobodyAcknowledgesEndsItsConnection) {
  report(1, kTooMany);

  expect_ended_for("more than 67108864 bytes that nobody has acknowledged");
}

TEST_F(WorkerFlood, ReportsThatAreAcknowledgedMakeRoomForOthers) {
  const std::uint64_t half = kWorkerBytesMax / kMiB / 2;
  for (std::uint64_t round = 0; round < 5; ++round) {
    const std::uint64_t last = (round + 1) * half;
    ASSERT_EQ(report(round * half + 1, last), last);
    while (supervisor_.wait_for<ReportBatch>().first_report_seq < last) continue;
    supervisor_.send(AckReports{{{0, last}}});
    const auto acked = hear<AckReports>();
    ASSERT_TRUE(acked) << round;
    EXPECT_EQ(acked->acks[0].report_seq, last);
  }
}

TEST_F(WorkerFlood, OfResultsEndsItsConnection) {
  for (std::uint64_t i = 0; i < kTooMany; ++i) {
    if (!say(WorkerResult{0, std::string(kMiB, '1')})) break;
  }

  expect_ended_for("more than 67108864 bytes that nobody has acknowledged");
}

TEST_F(WorkerFlood, OfCheckpointsThatNobodyResolvesEndsItsConnection) {
  std::uint64_t count = 0;
  CheckpointStaged staged;
  staged.error = "the worker could not write it";
  do {
    staged.checkpoint_seq = ++count;
    staged.dir = staging_ + "/ckpt-" + std::to_string(count);
  } while (count < kTooMany && say(staged));

  expect_ended_for("more than 64 checkpoints at a time");
}

// A program of the rank connects and leaves without end.
TEST_F(WorkerFlood, OfConnectionsALauncherIsToldTheNewestAlone) {
  for (const char* build : {"b1", "b2", "b3"}) {
    link_.reset();
    join(build);
  }
  supervisor_.attach(2);
  supervisor_.attach(2);
  (void)supervisor_.wait_for<AttemptSnapshot>();

  std::vector<std::string> builds;
  for (const Frame& frame : supervisor_.until(MessageType::AttemptSnapshot)) {
    if (frame.type == MessageType::WorkerJoined)
      builds.push_back(decode<WorkerJoined>(frame)->build);
  }
  EXPECT_EQ(builds, std::vector<std::string>{"b3"});
}

}  // namespace
}  // namespace train
