// Ingest workers beside the ranks: how they are started, watched, ended and told of. The test acts
// as the launcher, and as the SDK of the ingest workers, whose programs are shell scripts.
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <csignal>
#include <filesystem>

#include "lib/base/file_descriptor.h"
#include "lib/base/text_file.h"
#include "lib/wire/link_messages.h"
#include "lib/wire/worker_messages.h"
#include "tests/fakes/eventually.h"
#include "tests/unit/daemon_supervisor/supervisor_process.h"

namespace train {
namespace {

using testing::HasSubstr;

/// A process that connects to the supervisor as an SDK does.
class Link {
 public:
  explicit Link(const SupervisorProcess& supervisor, WorkerHello hello) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::string path = supervisor.dir() + "/spool/worker.sock";
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    fd_ = FileDescriptor(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval limit{60, 0};  // far more than any step takes
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    EXPECT_EQ(::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    hello.attempt = SupervisorProcess::kAttempt.value;
    say(hello);
  }
  template <class Message>
  void say(const Message& message) {
    std::string bytes;
    append_frame(encode(message, SupervisorProcess::kAttempt), bytes);
    EXPECT_EQ(::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  template <class Message>
  std::optional<Message> hear() {
    while (const auto frame = next())
      if (frame->type == Message::kType) return *decode<Message>(*frame);
    return std::nullopt;
  }

 private:
  std::optional<Frame> next() {
    char buffer[65536];
    for (;;) {
      auto frame = reader_.next();
      if (!frame) return std::nullopt;
      if (*frame) return std::move(**frame);
      const auto got = ::recv(fd_.get(), buffer, sizeof buffer, 0);
      if (got <= 0) return std::nullopt;
      reader_.feed({buffer, static_cast<std::size_t>(got)});
    }
  }
  FileDescriptor fd_;
  FrameReader reader_;
};

class IngestPoolTest : public testing::Test {
 protected:
  /// Start a rank that sleeps. The same command is that of ingest workers: `script`.
  void begin(const std::string& script) {
    supervisor_.attach(1);
    supervisor_.order().bind_address = "10.0.0.3";
    supervisor_.prepare(1);
    StartWorkers start{.run = {.run_id = "r1", .run_name = "vit"}, .workers = {WorkerRanks{}}};
    start.working_dir = supervisor_.dir();
    start.env = {{"PATH", "/usr/bin:/bin"}};
    start.command = {"sh", "-c", "test -z \"$TRAINRUN_INGEST\" && exec sleep 1000; " + script};
    start.run.datasets_json = R"({"train": "d"})";
    start.run.master_port = 7;
    supervisor_.send(start);
    supervisor_.wait_for<WorkersStarted>();
  }
  void order(std::int32_t slot = 1, std::int64_t timeout_ms = 600'000) {
    StartIngest message;
    message.dataset = "train";
    message.slot = slot;
    message.timeout_ms = timeout_ms;
    message.flight = true;
    supervisor_.send(message);
  }
  static WorkerHello hello_of(const std::string& name) {
    WorkerHello hello;
    hello.ingest = name;
    return hello;
  }
  /// Connect as the ingest worker of this name, as soon as it runs.
  std::unique_ptr<Link> join(const std::string& name, std::optional<Welcome>* welcome = nullptr) {
    std::unique_ptr<Link> link;
    std::optional<Welcome> answer;
    EXPECT_TRUE(fakes::eventually([&] {
      link = std::make_unique<Link>(supervisor_, hello_of(name));
      answer = link->hear<Welcome>();
      return answer.has_value();
    }));
    if (welcome != nullptr) *welcome = answer;
    return link;
  }
  /// Return the newest snapshot, as a launcher of this generation gets it.
  AttemptSnapshot snapshot(std::uint64_t generation) {
    supervisor_.attach(generation);
    return supervisor_.wait_for<AttemptSnapshot>();
  }
  std::string path(const std::string& name) const { return supervisor_.dir() + "/" + name; }
  pid_t pid_in(const std::string& name) {
    EXPECT_TRUE(fakes::eventually([&] { return read_text(path(name)).ends_with('\n'); }));
    return std::stoi(read_text(path(name)));
  }

  SupervisorProcess supervisor_;
};

TEST_F(IngestPoolTest, AnIngestWorkerIsToldWhatToDoAndTheLauncherThatItServes) {
  begin("env | sort > env; mv env environment; exec sleep 1000");
  order(2);
  std::optional<Welcome> welcome;
  const auto link = join("ingest-train-0002", &welcome);
  ASSERT_TRUE(welcome);

  EXPECT_EQ(welcome->ingest.name, "ingest-train-0002");
  EXPECT_EQ(welcome->ingest.dataset, "train");
  EXPECT_TRUE(welcome->ingest.flight);
  EXPECT_EQ(welcome->run.datasets_json, R"({"train": "d"})");
  EXPECT_EQ(welcome->run.master_port, 0u);
  EXPECT_EQ(welcome->ingest.socket, path("spool/ingest/1"));
  struct stat folder {};
  ASSERT_EQ(::stat(path("spool/ingest").c_str(), &folder), 0);
  EXPECT_EQ(folder.st_mode & 0777, 0700u);

  link->say(IngestUp{"another", "name", 77, "/etc/passwd", "10.0.0.1:4711"});
  EXPECT_EQ(supervisor_.wait_for<IngestUp>(),
            (IngestUp{"ingest-train-0002", "train", 2, welcome->ingest.socket, "10.0.0.1:4711"}));
  link->say(IngestLoad{"another", "name", 77, 1, 2, 3});
  EXPECT_EQ(supervisor_.wait_for<IngestLoad>(),
            (IngestLoad{"ingest-train-0002", "train", 2, 1, 2, 3}));
  EXPECT_TRUE(fakes::eventually([&] { return !read_text(path("environment")).empty(); }));
  EXPECT_THAT(read_text(path("environment")),
              testing::AllOf(HasSubstr("TRAINRUN_INGEST=ingest-train-0002\n"),
                             HasSubstr("TRAINRUN_INGEST_ADDRESS=10.0.0.3\n")));
}

TEST_F(IngestPoolTest, ADeathIsToldWithItsLastLinesAndAnotherOneIsStarted) {
  begin("echo $$ > pid-$TRAINRUN_INGEST; echo reads; echo oh no >&2; exec sleep 1000");
  order();
  const auto link = join("ingest-train-0001");
  link->say(IngestUp{});
  supervisor_.wait_for<IngestUp>();

  ::kill(pid_in("pid-ingest-train-0001"), SIGKILL);

  const auto ended = supervisor_.wait_for<IngestEnded>();
  EXPECT_EQ(ended.name, "ingest-train-0001");
  EXPECT_EQ(ended.slot, 1);
  EXPECT_FALSE(ended.stopped);
  EXPECT_EQ(ended.why, "it was killed by SIGKILL");
  EXPECT_EQ(ended.deaths, 1u);
  EXPECT_FALSE(ended.often);
  EXPECT_THAT(ended.last_lines, testing::UnorderedElementsAre("reads", "oh no"));
  EXPECT_THAT(ended.output, HasSubstr("reads\n"));
  join("ingest-train-0001-2")->say(IngestUp{});
  EXPECT_EQ(supervisor_.wait_for<IngestUp>().name, "ingest-train-0001-2");
}

TEST_F(IngestPoolTest, OneThatDiesAgainAndAgainWaitsLonger) {
  begin("exit 3");
  order();

  std::vector<bool> often;
  for (int i = 0; i < 3; ++i) {
    const auto ended = supervisor_.wait_for<IngestEnded>();
    EXPECT_EQ(ended.why, "it exited with 3");
    often.push_back(ended.often);
  }

  EXPECT_EQ(often, (std::vector{false, false, true}));
}

TEST_F(IngestPoolTest, OneThatIsSilentIsKilled) {
  begin("exec sleep 1000");
  order(1, 1000);

  EXPECT_EQ(supervisor_.wait_for<IngestEnded>().why,
            "it had not begun to serve for 1.0 s, and was killed");
  const auto link = join("ingest-train-0001-2");
  link->say(IngestUp{});
  EXPECT_EQ(supervisor_.wait_for<IngestEnded>().why, "it said nothing for 1.0 s, and was killed");
}

TEST_F(IngestPoolTest, ItEndsAsItIsToldAndNoOtherFollows) {
  begin("echo $$ > pid; exec sleep 1000");
  order();
  const auto link = join("ingest-train-0001");
  const pid_t pid = pid_in("pid");

  supervisor_.send(StopIngest{"train", 1});
  EXPECT_TRUE(link->hear<StopIngest>());
  ::kill(pid, SIGTERM);  // as if it had ended by itself

  const auto ended = supervisor_.wait_for<IngestEnded>();
  EXPECT_TRUE(ended.stopped);
  EXPECT_EQ(ended.deaths, 0u);
  EXPECT_TRUE(snapshot(2).ingest.empty());
}

TEST_F(IngestPoolTest, ItIsKilledIfItDoesNotEndAsItIsTold) {
  begin("exec sleep 1000");
  order();
  const auto link = join("ingest-train-0001");

  supervisor_.send(StopIngest{"train", 1});

  const auto ended = supervisor_.wait_for<IngestEnded>();
  EXPECT_TRUE(ended.stopped);
  EXPECT_EQ(ended.why, "it did not end when it was told to");
}

TEST_F(IngestPoolTest, OneThatIsOrderedAgainWhileItEndsIsStartedAnew) {
  begin("exec sleep 1000");
  order();
  const auto link = join("ingest-train-0001");
  supervisor_.send(StopIngest{"train", 1});

  order();

  EXPECT_TRUE(supervisor_.wait_for<IngestEnded>().stopped);
  join("ingest-train-0001-2");
}

TEST_F(IngestPoolTest, ALauncherThatAttachesIsToldAllPlaces) {
  begin("exec sleep 1000");
  order(1);
  order(2);
  const auto link = join("ingest-train-0002");
  link->say(IngestUp{.flight = "h:1"});
  supervisor_.wait_for<IngestUp>();
  supervisor_.send(TellIngestRoster{{.version = 7, .endpoints = {}}});

  const AttemptSnapshot told = snapshot(2);

  ASSERT_EQ(told.ingest.size(), 2u);
  EXPECT_EQ(told.ingest[0], (IngestPlace{.dataset = "train", .slot = 1}));
  EXPECT_EQ(told.ingest[1].name, "ingest-train-0002");
  EXPECT_EQ(told.ingest[1].flight, "h:1");
  EXPECT_NE(told.ingest[1].socket, "");
  EXPECT_EQ(told.roster_version, 7u);
}

TEST_F(IngestPoolTest, TheRosterGoesToRanksThatConnectLater) {
  begin("exit 3");
  const IngestRoster newest{5, {{.name = "n", .dataset = "train", .socket = "s"}}};
  supervisor_.send(TellIngestRoster{newest});
  supervisor_.send(TellIngestRoster{{.version = 4, .endpoints = {}}});  // late
  WorkerHello hello;
  hello.ingest_rosters = true;

  Link rank(supervisor_, hello);
  const auto heard = rank.hear<TellIngestRoster>();

  ASSERT_TRUE(heard);
  EXPECT_EQ(static_cast<const IngestRoster&>(*heard), newest);
  supervisor_.send(TellIngestRoster{{.version = 6, .endpoints = {}}});
  EXPECT_EQ(rank.hear<TellIngestRoster>()->version, 6u);
}

TEST_F(IngestPoolTest, AnOldSdkGetsNoRoster) {
  begin("exit 3");
  supervisor_.send(TellIngestRoster{{.version = 5, .endpoints = {}}});

  Link rank(supervisor_, WorkerHello{});
  EXPECT_TRUE(rank.hear<Welcome>());
  supervisor_.send(TellIngestRoster{{.version = 6, .endpoints = {}}});
  supervisor_.send(PauseWorkers{.step = "pause"});

  // It is the next frame after the welcome.
  EXPECT_TRUE(rank.hear<PauseWorkers>());
}

TEST_F(IngestPoolTest, StrangersAreRefused) {
  begin("exec sleep 1000");
  order();
  const auto link = join("ingest-train-0001");

  Link second(supervisor_, hello_of("ingest-train-0001"));
  EXPECT_EQ(second.hear<Refused>()->message, "another process is connected as ingest-train-0001");
  Link unknown(supervisor_, hello_of("ingest-train-0009"));
  EXPECT_EQ(unknown.hear<Refused>()->code, "fenced");
}

TEST_F(IngestPoolTest, OneThatActsAsARankIsCutOff) {
  begin("exec sleep 1000");
  order();
  const auto link = join("ingest-train-0001");

  link->say(WorkerResult{.rank = 0, .json = "{}"});

  EXPECT_EQ(link->hear<Refused>()->message, "an ingest worker may not send WorkerResult");
}

TEST_F(IngestPoolTest, AllOfThemEndWithTheRanksOfTheirNode) {
  begin("echo $$ > pid-$TRAINRUN_INGEST; exec sleep 1000");
  order(1);
  order(2);
  const pid_t first = pid_in("pid-ingest-train-0001"), second = pid_in("pid-ingest-train-0002");

  supervisor_.send(StopWorkers{.grace_ms = 0, .reason = "enough"});
  supervisor_.wait_for<GroupGone>();

  EXPECT_TRUE(ends(first));
  EXPECT_TRUE(ends(second));
  order(3);  // late: no more are started
  EXPECT_TRUE(snapshot(2).ingest.empty());
}

TEST_F(IngestPoolTest, AllOfThemEndWithTheirSupervisor) {
  begin("echo $$ > pid; exec sleep 1000");
  order();
  const pid_t pid = pid_in("pid");

  supervisor_.signal(SIGKILL);

  EXPECT_TRUE(ends(pid));
}

TEST_F(IngestPoolTest, OneThatFloodsUsWithFiguresIsToldOnceInAWhile) {
  begin("exec sleep 1000");
  order();
  const auto link = join("ingest-train-0001");

  for (int i = 1; i <= 1000; ++i) link->say(IngestLoad{.rows = i});
  link->say(IngestUp{});
  link->say(IngestUp{.flight = "another"});
  link->say(IngestUp{.flight = "yet another"});
  supervisor_.send(StopIngest{"train", 1});  // it ends after 5 s

  int loads = 0, ups = 0;
  for (const Frame& frame : supervisor_.until(MessageType::IngestEnded)) {
    loads += frame.type == MessageType::IngestLoad ? 1 : 0;
    ups += frame.type == MessageType::IngestUp ? 1 : 0;
  }
  EXPECT_LE(loads, 20);
  EXPECT_EQ(ups, 1);
}

}  // namespace
}  // namespace train
