// A worker that goes on and on, while nobody acknowledges: its connection is ended, and the
// supervisor has no more than its share of memory, and lives on.
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/supervisor/worker_frames.h"
#include "lib/base/file_descriptor.h"
#include "tests/unit/daemon_supervisor/supervisor_process.h"

namespace train {
namespace {

constexpr Attempt kAttempt = SupervisorProcess::kAttempt;
constexpr std::size_t kMiB = 1u << 20;
constexpr std::uint64_t kTooMany = 100;  // frames of 1 MiB
constexpr timeval kPatience{60, 0};      // far more than any step takes

class WorkerFlood : public testing::Test {
 protected:
  /// The worker's program does nothing; the test speaks for it.
  void SetUp() override {
    supervisor_.attach(1);
    supervisor_.start({"exec sleep 1000"});
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = supervisor_.dir() + "/spool/worker.sock";
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    link_ = FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ::setsockopt(link_.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
    ASSERT_EQ(::connect(link_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    WorkerHello hello;
    hello.rank = 0;
    hello.attempt = kAttempt.value;
    ASSERT_TRUE(say(hello));
    const auto welcome = hear<Welcome>();
    ASSERT_TRUE(welcome);
    staging_ = welcome->staging_dir;
  }

  /// False once the connection is ended.
  template <class Message>
  bool say(const Message& message) {
    std::string bytes;
    append_frame(encode(message, kAttempt), bytes);
    for (std::string_view rest = bytes; !rest.empty();) {
      const auto sent = ::send(link_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      rest.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  /// The next of this kind; nothing where the connection ends before, or nothing comes.
  template <class Message>
  std::optional<Message> hear() {
    char buffer[65536];
    for (;;) {
      const auto frame = reader_.next();
      if (!frame) return std::nullopt;
      if (*frame && (*frame)->type == Message::kType) return *decode<Message>(**frame);
      if (*frame) continue;
      const auto got = ::recv(link_.get(), buffer, sizeof buffer, 0);
      if (got <= 0) return std::nullopt;
      reader_.feed({buffer, static_cast<std::size_t>(got)});
    }
  }

  /// Reports of 1 MiB each, until one of them cannot be sent; the last that was.
  std::uint64_t report(std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t ordinal = from; ordinal <= to; ++ordinal) {
      if (!say(ReportBatch{0, ordinal, 1, std::string(kMiB, 'r')})) return ordinal - 1;
    }
    return to;
  }

  void expect_ended_for(const std::string& why) {
    const auto refused = hear<Refused>();
    ASSERT_TRUE(refused) << "the connection was not ended, or without a word";
    EXPECT_EQ(refused->code, "resource_exhausted");
    EXPECT_EQ(refused->message, why);
    EXPECT_FALSE(hear<GoodbyeAck>()) << "it goes on";
    supervisor_.attach(2);
    AttemptSnapshot snapshot;
    do snapshot = supervisor_.wait_for<AttemptSnapshot>();
    while (snapshot.alive.empty());  // that of the first launcher
    EXPECT_FALSE(snapshot.alive[0].joined);
  }

  SupervisorProcess supervisor_;
  FileDescriptor link_;
  std::string staging_;
  FrameReader reader_;
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
    while (supervisor_.wait_for<ReportBatch>().first_ordinal < last) continue;
    supervisor_.send(AckReports{{{0, last}}});
    const auto acked = hear<AckReports>();
    ASSERT_TRUE(acked) << round;
    EXPECT_EQ(acked->acks[0].ordinal, last);
  }
}

TEST_F(WorkerFlood, OfResultsEndsItsConnection) {
  for (std::uint64_t i = 0; i < kTooMany; ++i) {
    if (!say(WorkerResult{0, std::string(kMiB, '1')})) break;
  }

  expect_ended_for("more than 67108864 bytes that nobody has acknowledged");
}

TEST_F(WorkerFlood, OfCheckpointsThatNobodySettlesEndsItsConnection) {
  std::uint64_t count = 0;
  CheckpointStaged staged;
  staged.error = "the worker could not write it";
  do {
    staged.index = ++count;
    staged.dir = staging_ + "/ckpt-" + std::to_string(count);
  } while (count < kTooMany && say(staged));

  expect_ended_for("more than 64 checkpoints at a time");
}

}  // namespace
}  // namespace train
