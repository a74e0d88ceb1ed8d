// Which processes may speak for a rank.
#include "daemon/supervisor/workers/worker_port.h"

#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "daemon/supervisor/workers/worker_frames.h"
#include "lib/progress/progress_memory.h"
#include "lib/progress/progress_reader.h"
#include "lib/progress/progress_writer.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"
#include "lib/wire/link_messages.h"
#include "lib/wire/worker_messages.h"
#include "sdk/client/supervisor_link.h"
#include "tests/unit/lib_net/net_fixture.h"

namespace train {
namespace {

constexpr Attempt kAttempt{3};
constexpr uid_t kNobody = 65534;

class WorkerPortTest : public NetTest {
 protected:
  void SetUp() override {
    WorkerPort::Handlers handlers;
    handlers.welcome = [](const WorkerHello& hello) -> Task<Welcome> {
      Welcome welcome;
      welcome.protocol = kProtocolMax;
      welcome.ranks.rank = hello.rank;
      co_return welcome;
    };
    handlers.progress_page = [this](Rank) { return page_.fd(); };
    handlers.joined = [this](Rank rank, const WorkerHello& hello) {
      joined_.emplace_back(rank.value, hello.pid);
    };
    handlers.received = [](Rank, const Frame&) { return Unit{}; };
    handlers.closed = [this](Rank rank) { closed_.push_back(rank.value); };
    auto port = WorkerPort::open(executor(), socket_, kAttempt, std::move(handlers));
    ASSERT_TRUE(port) << port.error().describe();
    port_ = std::move(*port);
  }
  void TearDown() override {
    run([this]() -> asio::awaitable<void> { co_await port_->close(); });
  }

  static Frame hello(int rank, int pid) {
    WorkerHello hello;
    hello.rank = rank;
    hello.pid = pid;
    return encode(hello, kAttempt);
  }
  /// Return what a process that connects as this rank hears.
  asio::awaitable<Frame> join(std::unique_ptr<Connection>& connection, int rank, int pid) {
    auto connected = co_await Connection::connect(executor(), Endpoint::unix_socket(socket_), 5s);
    connection = std::move(connected).value();
    connection->send(hello(rank, pid));
    auto answer = co_await within(10s, connection->receive());
    co_return answer ? std::move(*answer) : Frame{};
  }
  /// Do so as a process of another user. Return what it reads until its connection closes.
  std::string join_as_nobody() {
    int ends[2];
    if (::pipe(ends) != 0) return "no pipe";
    const pid_t child = ::fork();
    if (child == 0) {
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      socket_.copy(address.sun_path, sizeof address.sun_path - 1);
      std::string bytes;
      append_frame(hello(0, 1), bytes);
      const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
      if (::setresuid(kNobody, kNobody, kNobody) != 0 ||
          ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
          ::write(fd, bytes.data(), bytes.size()) < 0)
        ::_exit(1);
      char text[4096];
      for (ssize_t size; (size = ::read(fd, text, sizeof text)) > 0;)
        if (::write(ends[1], text, static_cast<std::size_t>(size)) < 0) break;
      ::_exit(0);
    }
    ::close(ends[1]);
    int status = -1;
    run_beside([&]() -> asio::awaitable<void> {
      while (::waitpid(child, &status, WNOHANG) == 0) (void)co_await pause_for(5ms);
    });
    EXPECT_EQ(status, 0) << "it could not connect";
    std::string said(4096, '\0');
    said.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::read(ends[0], said.data(), 4096))));
    ::close(ends[0]);
    return said;
  }

  const std::string socket_ = (folder_ / "worker.sock").string();
  std::unique_ptr<WorkerPort> port_;
  const ProgressMemory page_ = ProgressMemory::make().value();
  std::vector<std::pair<int, std::int64_t>> joined_;  // rank, pid as the kernel says
  std::vector<int> closed_;
};

TEST_F(WorkerPortTest, ASecondProcessOfARankIsRefusedWhileTheFirstIsConnected) {
  run_beside([&]() -> asio::awaitable<void> {
    std::unique_ptr<Connection> first, second, other;
    const Frame welcomed = co_await join(first, 1, 100);
    EXPECT_EQ(welcomed.type, MessageType::Welcome);

    const Frame refused = co_await join(second, 1, 200);
    const Frame neighbour = co_await join(other, 2, 300);

    const auto why = decode<Refused>(refused);
    EXPECT_TRUE(why);
    if (why) {
      EXPECT_EQ(why->message,
                "process " + std::to_string(::getpid()) + " is connected as rank 1 already");
    }
    EXPECT_EQ(neighbour.type, MessageType::Welcome);
    EXPECT_TRUE(closed_.empty()) << "the first one was put out";
    port_->send(Rank{1}, encode(GoodbyeAck{}, kAttempt));
    auto reached = co_await within(5s, first->receive());
    EXPECT_TRUE(reached.has_value());
  });
  EXPECT_EQ(joined_, (std::vector<std::pair<int, std::int64_t>>{{1, ::getpid()}, {2, ::getpid()}}));
}

TEST_F(WorkerPortTest, TheNextProgramOfARankJoinsOnceTheOneBeforeHasLeft) {
  run_beside([&]() -> asio::awaitable<void> {
    std::unique_ptr<Connection> first, second;
    const Frame welcomed = co_await join(first, 1, 100);
    EXPECT_EQ(welcomed.type, MessageType::Welcome);
    first.reset();
    const Frame next = co_await join(second, 1, 200);
    EXPECT_EQ(next.type, MessageType::Welcome);
  });
  EXPECT_EQ(joined_, (std::vector<std::pair<int, std::int64_t>>{{1, ::getpid()}, {1, ::getpid()}}));
}

// Connect as the SDK does, in a process of its own, which marks that its loop steps.
TEST_F(WorkerPortTest, TheWelcomeBringsThePageInWhichTheWorkerMarksItsProgress) {
  const pid_t child = ::fork();
  if (child == 0) {
    sdk::JoinedSocket joined =
        sdk::join_supervisor(sdk::connect_supervisor(socket_).value(), WorkerHello{.rank = 1})
            .value();
    const ProgressMemory page = ProgressMemory::map(std::move(joined.progress)).value();
    ProgressWriter(page.page(), 1).end_step(StepSource::Program, 2);
    ::_exit(0);
  }
  int status = -1;
  run_beside([&]() -> asio::awaitable<void> {
    while (::waitpid(child, &status, WNOHANG) == 0) (void)co_await pause_for(5ms);
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(read_progress(page_.page(), 2).steps, 1u);
}

TEST_F(WorkerPortTest, AProcessOfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be another user";
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  ASSERT_EQ(::chmod(socket_.c_str(), 0777), 0);

  const std::string said = join_as_nobody();

  EXPECT_NE(said.find("this supervisor belongs to another user"), std::string::npos) << said;
  EXPECT_TRUE(joined_.empty());
}

TEST_F(WorkerPortTest, AWorkerThatReadsNothingIsPutOutBeforeItFillsOurMemory) {
  std::size_t sent = 0;
  run_beside([&]() -> asio::awaitable<void> {
    std::unique_ptr<Connection> worker;
    const Frame welcomed = co_await join(worker, 1, 100);
    EXPECT_EQ(welcomed.type, MessageType::Welcome);
    const Frame frame{.type = MessageType::CollectiveResult,
                      .attempt = kAttempt,
                      .payload = std::string(1u << 20, 'x')};
    for (; port_->connected(Rank{1}) && sent < 4 * kWorkerBytesMax; sent += 1u << 20) {
      port_->send(Rank{1}, frame);
      (void)co_await pause_for(1ms);
    }
  });
  EXPECT_EQ(closed_, std::vector<int>{1});
  EXPECT_GE(sent, kWorkerBytesMax);
  EXPECT_LT(sent, 2 * kWorkerBytesMax);
}

}  // namespace
}  // namespace train
