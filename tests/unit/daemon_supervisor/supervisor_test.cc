#include "daemon/supervisor/supervisor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "lib/base/text_file.h"
#include "lib/wire/link_messages.h"
#include "lib/wire/worker_messages.h"
#include "tests/fakes/eventually.h"
#include "tests/unit/daemon_supervisor/supervisor_process.h"

namespace train {
namespace {

std::vector<std::string> names(const std::vector<Frame>& frames) {
  std::vector<std::string> all;
  for (const Frame& frame : frames) all.push_back(to_string(frame.type));
  return all;
}
/// Return the sequences of all CollectiveAnswered that a launcher hears when it attaches.
std::vector<std::uint64_t> answered_to(SupervisorProcess& supervisor, std::uint64_t generation) {
  supervisor.attach(generation);
  std::vector<std::uint64_t> sequences;
  for (const Frame& frame : supervisor.until(MessageType::Prepared)) {
    if (frame.type == MessageType::CollectiveAnswered)
      sequences.push_back(decode<CollectiveAnswered>(frame)->sequence);
  }
  return sequences;
}

TEST(Supervisor, TellsANewLauncherWhatItsPredecessorWasTold) {
  SupervisorProcess supervisor;
  supervisor.attach(1);
  EXPECT_EQ(supervisor.wait_for<AttemptSnapshot>().phase, "spawned");
  supervisor.start({"exec sleep 1000", "exit 3"});
  const auto exited = supervisor.wait_for<WorkerExited>();
  ASSERT_EQ(exited.rank, 1);

  supervisor.attach(2);

  const auto snapshot = supervisor.wait_for<AttemptSnapshot>();
  EXPECT_EQ(snapshot.phase, "running");
  ASSERT_EQ(snapshot.alive.size(), 1u);
  EXPECT_EQ(snapshot.alive[0].rank, 0);
  const auto frames = supervisor.until(MessageType::WorkerExited);
  EXPECT_EQ(names(frames),
            (std::vector<std::string>{"Prepared", "WorkersStarted", "WorkerExited"}));
  const auto started = *decode<WorkersStarted>(frames[1]);
  ASSERT_EQ(started.workers.size(), 2u);
  EXPECT_EQ(started.workers[0].pid, snapshot.alive[0].pid);
  EXPECT_EQ(started.workers[1].pid, exited.pid);
  EXPECT_EQ(decode<WorkerExited>(frames[2])->end.status, 3);
}

TEST(Supervisor, TellsANewerLauncherTheResultsThatAnOlderOneSent) {
  SupervisorProcess supervisor;
  supervisor.attach(1);
  supervisor.start({"exec sleep 1000"});
  supervisor.send(CollectiveResult{.sequence = 1, .parts = {"a"}, .error = ""});
  supervisor.send(CollectiveResult{.sequence = 2, .parts = {"b"}, .error = ""});
  EXPECT_EQ(answered_to(supervisor, 1), (std::vector<std::uint64_t>{}));

  EXPECT_EQ(answered_to(supervisor, 2), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(answered_to(supervisor, 2), (std::vector<std::uint64_t>{1, 2}));  // over a new link
  supervisor.send(CollectiveResult{.sequence = 2, .parts = {"b"}, .error = ""});
  EXPECT_EQ(answered_to(supervisor, 2), (std::vector<std::uint64_t>{1}));
}

TEST(Supervisor, StoppedBeforeItWasToldToStartItHasNoWorkersToTellOf) {
  SupervisorProcess supervisor;
  supervisor.attach(1);
  supervisor.prepare(1);
  supervisor.wait_for<Prepared>();
  supervisor.send(StopWorkers{.grace_ms = 0, .reason = "Ctrl-C"});
  supervisor.wait_for<GroupGone>();

  supervisor.attach(2);

  EXPECT_EQ(supervisor.wait_for<AttemptSnapshot>().phase, "prepared");
}

TEST(Supervisor, KillsWorkersThatOutlastTheirGrace) {
  SupervisorProcess supervisor;
  supervisor.attach(1);
  supervisor.start({"trap '' TERM; echo ready; while :; do sleep 1; done"});
  supervisor.attach(1);
  supervisor.wait_for<OutputChunk>();
  supervisor.send(StopWorkers{.grace_ms = 50, .reason = "Ctrl-C"});

  const auto exited = supervisor.wait_for<WorkerExited>();
  EXPECT_TRUE(exited.end.signaled);
  EXPECT_EQ(exited.end.status, SIGKILL);
  supervisor.wait_for<GroupGone>();
}

TEST(Supervisor, TellsWhatItsWorkersUse) {
  SupervisorProcess supervisor;
  supervisor.attach(1);
  const WorkersStarted started = supervisor.start({"exec sleep 1000", "exec sleep 1000"});

  const auto samples = supervisor.wait_for<WorkerSamples>();

  ASSERT_EQ(samples.ranks.size(), 2u);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(samples.ranks[rank].rank.value, static_cast<std::int32_t>(rank));
    EXPECT_EQ(samples.ranks[rank].process.pid, started.workers.at(rank).pid);
    EXPECT_GT(samples.ranks[rank].process.resident_bytes, 0);
  }
}

TEST(Supervisor, SaysWhyAWorkerDidNotStart) {
  SupervisorProcess supervisor;
  supervisor.attach(1);
  supervisor.prepare(1);
  StartWorkers start;
  start.run.run_id = start.run.run_name = "r1";
  start.working_dir = supervisor.dir();
  start.command = {"./train"};
  start.workers.push_back({.world_size = 1, .rank = 0, .local_rank = 0, .local_world_size = 1});
  supervisor.send(start);

  const auto failed = supervisor.wait_for<StartFailed>();
  EXPECT_EQ(failed.rank, 0);
  EXPECT_EQ(failed.code, "not_found");
  EXPECT_EQ(failed.message,
            "the command './train' is not found (" + supervisor.dir() + "/./train)");
}

TEST(Supervisor, TellsALauncherWhichCheckpointsAreResolved) {
  SupervisorProcess supervisor;
  supervisor.attach(1);
  EXPECT_EQ(supervisor.wait_for<AttemptSnapshot>().resolved_checkpoint, 0u);
  supervisor.send(CheckpointOutcome{.checkpoint_seq = 1, .path = "", .error = "the disk is full"});
  supervisor.send(CheckpointOutcome{.checkpoint_seq = 2, .path = "checkpoint_000001", .error = ""});

  supervisor.attach(2);

  EXPECT_EQ(supervisor.wait_for<AttemptSnapshot>().resolved_checkpoint, 2u);
}

TEST(Supervisor, TellsTheFirstLauncherBehindItsSnapshotWhichLimitsAreNotEnforced) {
  using Names = std::vector<std::string>;
  SupervisorProcess supervisor(Attempt{0});  // without a cgroup
  supervisor.order().limits.pids_max = 100;
  supervisor.prepare(1);
  EXPECT_EQ(names(supervisor.until(MessageType::Prepared)), (Names{"SupervisorHello", "Prepared"}));

  for (const std::uint64_t generation : {1, 2, 3}) supervisor.attach(generation);

  const auto told = [&] { return names(supervisor.until(MessageType::AttemptSnapshot)); };
  EXPECT_EQ(told(), Names{"AttemptSnapshot"});
  EXPECT_EQ(told(), (Names{"Prepared", "StorageTrouble", "AttemptSnapshot"}));
  EXPECT_EQ(told(), (Names{"Prepared", "AttemptSnapshot"}));
}

TEST(Supervisor, TellsARestartedTraindTheHighestGeneration) {
  SupervisorProcess supervisor;
  EXPECT_EQ(supervisor.wait_for<SupervisorHello>().generation, 0u);
  supervisor.attach(5);
  supervisor.wait_for<AttemptSnapshot>();
  supervisor.send(LauncherState{.present = false, .generation = 4, .orphan_timeout_ms = -1});

  supervisor.reconnect();

  EXPECT_EQ(supervisor.wait_for<SupervisorHello>().generation, 5u);
}

TEST(Supervisor, SaysThatTheGroupIsGoneBehindAllOutput) {
  SupervisorProcess supervisor;
  supervisor.attach(1);
  supervisor.start({"head -c 500000 /dev/zero", "true"});
  const auto ends_before_gone = [&] {
    int ends = 0;
    for (;;) {
      const Frame frame = supervisor.next();
      if (frame.type == MessageType::GroupGone) return ends;
      if (frame.type != MessageType::OutputChunk) continue;
      const auto chunk = *decode<OutputChunk>(frame);
      if (chunk.end) ++ends;
      const std::uint64_t offset = chunk.offset + chunk.data.size();
      if (offset > 400000) continue;  // the rest stays unacknowledged
      supervisor.send(AckOutput{chunk.rank, chunk.stream, offset});
    }
  };
  EXPECT_EQ(ends_before_gone(), 4);

  supervisor.attach(2);

  EXPECT_EQ(ends_before_gone(), 4);
  supervisor.send(ReleaseAttempt{});
  EXPECT_EQ(supervisor.wait_for_end(), 0);
}

/// Return the first output of a supervisor's rank 0.
std::string first_output(SupervisorProcess& supervisor) {
  for (;;) {
    const auto chunk = supervisor.wait_for<OutputChunk>();
    if (chunk.rank == 0 && !chunk.data.empty()) return chunk.data;
  }
}

TEST(Supervisor, SendsTheRestToALauncherThatHasMoreThanItWasSentAgain) {
  constexpr std::uint64_t kBytes = 262'244;  // more than it sends unacknowledged
  SupervisorProcess supervisor;
  supervisor.attach(1);
  supervisor.start({fmt::format("head -c {} /dev/zero", kBytes)});
  supervisor.wait_for<WorkerExited>();

  supervisor.attach(2);
  supervisor.wait_for<AttemptSnapshot>();
  (void)first_output(supervisor);
  supervisor.send(AckOutput{.rank = 0, .stream = 1, .offset = kBytes});

  std::vector<std::uint64_t> ends;
  for (const Frame& frame : supervisor.until(MessageType::GroupGone)) {
    if (frame.type != MessageType::OutputChunk) continue;
    const auto chunk = *decode<OutputChunk>(frame);
    if (chunk.stream == 1 && chunk.end) ends.push_back(chunk.offset);
  }
  EXPECT_EQ(ends, std::vector<std::uint64_t>{kBytes});
}

constexpr int kTimeoutMs = 60000;

bool readable(int fd) {
  pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&ready, 1, kTimeoutMs) == 1;
}

/// A pipe in the supervisor's folder, to which a script writes its pid.
class PidPipe {
 public:
  explicit PidPipe(const std::string& path) {
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    fd_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  }
  ~PidPipe() { ::close(fd_); }
  PidPipe(const PidPipe&) = delete;
  PidPipe& operator=(const PidPipe&) = delete;

  pid_t read() const {
    char text[32] = {};
    EXPECT_TRUE(readable(fd_) && ::read(fd_, text, sizeof text - 1) > 0);
    return std::stoi(text);
  }

 private:
  int fd_ = -1;
};

TEST(Supervisor, AProcessThatStandsByGoesOnAsARank) {
  SupervisorProcess supervisor;
  supervisor.attach(1);
  supervisor.stand_by(1, "echo number $TRAINRUN_STANDBY rank $RANK; exec sleep 1000");
  EXPECT_EQ(supervisor.wait_for<SupervisorHello>().standby, false);

  const WorkersStarted started = supervisor.start({"echo new; exec sleep 1000", "exit 3"});

  EXPECT_EQ(started.from_standby, 1);
  EXPECT_EQ(supervisor.wait_for<WorkerExited>().rank, 1);  // no standby was left for it
  supervisor.attach(1);
  EXPECT_EQ(first_output(supervisor), "number 0 rank\n");
}

TEST(Supervisor, AStandbyProcessThatDiedIsReplacedByANewOne) {
  SupervisorProcess supervisor;
  const PidPipe pid(supervisor.dir() + "/pid");
  supervisor.attach(1);
  supervisor.stand_by(1, "echo $$ > pid; exit 1");
  ASSERT_TRUE(ends(pid.read()));

  EXPECT_EQ(supervisor.start({"echo new; exec sleep 1000"}).from_standby, 0);
  supervisor.attach(1);
  EXPECT_EQ(first_output(supervisor), "new\n");
}

/// CUDA reads CUDA_VISIBLE_DEVICES once: the process might train on the GPU of another run.
TEST(Supervisor, AProcessThatStoodByWithOtherGpusIsReplacedByANewOne) {
  SupervisorProcess supervisor;
  const PidPipe pid(supervisor.dir() + "/pid");
  supervisor.attach(1);
  supervisor.order().gpus = {"0"};
  supervisor.stand_by(1, "echo $$ > pid; exec sleep 1000");
  const pid_t stood_by = pid.read();
  supervisor.order().gpus = {"1"};

  ASSERT_EQ(supervisor.start({"echo $CUDA_VISIBLE_DEVICES; exec sleep 1000"}).from_standby, 0);

  EXPECT_TRUE(ends(stood_by));
  supervisor.attach(1);
  EXPECT_EQ(first_output(supervisor), "1\n");
}

TEST(Supervisor, ThoseThatAreLeftOverAreKilled) {
  SupervisorProcess supervisor;
  const PidPipe first(supervisor.dir() + "/0"), second(supervisor.dir() + "/1");
  supervisor.attach(1);
  supervisor.stand_by(2, "echo $$ > $TRAINRUN_STANDBY; exec sleep 1000");
  const pid_t left_over = second.read();

  EXPECT_EQ(supervisor.start({"true"}).from_standby, 1);

  EXPECT_TRUE(ends(left_over));
  EXPECT_TRUE(fakes::eventually([&] { return ::kill(left_over, 0) != 0; })) << "it is not reaped";
}

// Found by simulation: a draining traind stopped it while no launcher could hear of that, and the
// launcher then waited forever for the workers of its next attempt.
TEST(Supervisor, StoppedWhileItStoodByItAnswersAStartWithItsEnd) {
  SupervisorProcess supervisor;
  supervisor.attach(1);
  supervisor.stand_by(1, "exec sleep 1000");
  supervisor.send(StopWorkers{.grace_ms = 0, .reason = "the node leaves"});
  supervisor.wait_for<GroupGone>();
  supervisor.prepare(1);
  supervisor.wait_for<Prepared>();

  StartWorkers start;
  start.run.run_id = start.run.run_name = "r1";
  start.working_dir = supervisor.dir();
  start.command = {"true"};
  start.workers.push_back({.world_size = 1, .rank = 0, .local_rank = 0, .local_world_size = 1});
  supervisor.send(start);

  supervisor.wait_for<GroupGone>();
}

TEST(Supervisor, TellsARestartedTraindThatItsAttemptHasNotBegun) {
  SupervisorProcess supervisor;
  supervisor.attach(1);
  supervisor.stand_by(1, "exec sleep 1000");
  supervisor.attach(2);  // queued behind the first two messages
  supervisor.wait_for<AttemptSnapshot>();
  supervisor.wait_for<AttemptSnapshot>();

  supervisor.reconnect();

  EXPECT_TRUE(supervisor.wait_for<SupervisorHello>().standby);
}

/// A worker that connects once somebody opens the pipe `go`, and prints what it hears.
constexpr const char* kLateWorker = R"(
import os, socket, sys
open("go").read()
link = socket.socket(socket.AF_UNIX)
link.connect(os.environ["TRAINRUN_SOCKET"])
link.sendall(open("hello", "rb").read())
while data := link.recv(65536):
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
)";

std::string hello_of_rank_0() {
  std::string bytes;
  append_frame(encode(WorkerHello{.rank = 0, .attempt = SupervisorProcess::kAttempt.value},
                      SupervisorProcess::kAttempt),
               bytes);
  return bytes;
}

TEST(Supervisor, RefusesWhoHasARankBeforeThereAreAny) {
  SupervisorProcess supervisor;
  const std::string go = supervisor.dir() + "/go";
  ASSERT_EQ(::mkfifo(go.c_str(), 0600), 0);
  std::ofstream(supervisor.dir() + "/hello", std::ios::binary) << hello_of_rank_0();
  std::ofstream(supervisor.dir() + "/late.py") << kLateWorker;
  supervisor.attach(1);
  supervisor.stand_by(
      1, "unset TRAINRUN_STANDBY; python3 late.py > said; echo told > told; exec sleep 1000");

  ::close(::open(go.c_str(), O_WRONLY | O_CLOEXEC));

  const std::string told = supervisor.dir() + "/told";
  ASSERT_TRUE(fakes::eventually([&] { return ::access(told.c_str(), F_OK) == 0; }));
  FrameReader reader;
  reader.feed(read_text(supervisor.dir() + "/said"));
  const auto frame = reader.next();
  ASSERT_TRUE(frame && *frame);
  EXPECT_EQ(decode<Refused>(**frame)->message, "no worker of this supervisor has a rank yet");
  EXPECT_EQ(supervisor.start({"true"}).from_standby, 1);
}

/// Return the frames in a rank's standard output, up to one of this type. `earlier`: what has
/// arrived from the supervisor before.
std::vector<Frame> printed_until(SupervisorProcess& supervisor, int rank, MessageType type,
                                 const std::vector<Frame>& earlier = {}) {
  FrameReader reader;
  for (const Frame& frame : earlier) {
    if (frame.type != MessageType::OutputChunk) continue;
    const OutputChunk chunk = *decode<OutputChunk>(frame);
    if (chunk.rank == rank && chunk.stream == 1) reader.feed(chunk.data);
  }
  std::vector<Frame> frames;
  for (;;) {
    const auto frame = reader.next();
    if (!frame) throw std::runtime_error(frame.error().describe());
    if (*frame) {
      frames.push_back(**frame);
      if (frames.back().type == type) return frames;
      continue;
    }
    const auto chunk = supervisor.wait_for<OutputChunk>();
    if (chunk.rank == rank && chunk.stream == 1) reader.feed(chunk.data);
  }
}

/// Start a worker that connects once the pipe whose path is returned has been opened.
std::string start_late_worker(SupervisorProcess& supervisor) {
  std::string go = supervisor.dir() + "/go";
  EXPECT_EQ(::mkfifo(go.c_str(), 0600), 0);
  std::ofstream(supervisor.dir() + "/hello", std::ios::binary) << hello_of_rank_0();
  std::ofstream(supervisor.dir() + "/late.py") << kLateWorker;
  supervisor.attach(1);
  supervisor.start({"exec python3 late.py"});
  return go;
}

TEST(Supervisor, TellsAWorkerThatConnectsLateThatAllAreToPause) {
  SupervisorProcess supervisor;
  const std::string go = start_late_worker(supervisor);
  supervisor.send(PauseWorkers{.step = "pause", .reason = "Ctrl-C"});
  supervisor.send(PauseWorkers{.step = "advance", .report_seq = 7, .reason = "Ctrl-C"});
  supervisor.attach(1);
  supervisor.wait_for<AttemptSnapshot>();  // it has read both orders

  ::close(::open(go.c_str(), O_WRONLY | O_CLOEXEC));

  const auto frames = printed_until(supervisor, 0, MessageType::PauseWorkers);
  EXPECT_EQ(names(frames), (std::vector<std::string>{"Welcome", "PauseWorkers"}));
  const auto pause = *decode<PauseWorkers>(frames.back());
  EXPECT_EQ(pause.step, "advance");
  EXPECT_EQ(pause.report_seq, 7u);
}

// A program with an older SDK would drop its connection because of the order.
TEST(Supervisor, AnswersForAWorkerThatKnowsNoRequestForACheckpoint) {
  SupervisorProcess supervisor;
  const std::string go = start_late_worker(supervisor);
  supervisor.send(RequestCheckpoint{.request = 1, .step = "ask"});
  const auto before = supervisor.wait_for<CheckpointPosition>();
  EXPECT_EQ(before.rank, 0);
  EXPECT_EQ(before.request, 1u);
  EXPECT_EQ(before.error, "it has not called the SDK yet, or has left its loop");
  supervisor.send(RequestCheckpoint{.request = 1, .step = "cancel"});

  ::close(::open(go.c_str(), O_WRONLY | O_CLOEXEC));
  supervisor.wait_for<WorkerJoined>();
  supervisor.send(RequestCheckpoint{.request = 2, .step = "ask"});
  const auto arrived = supervisor.until(MessageType::CheckpointPosition);
  const auto position = *decode<CheckpointPosition>(arrived.back());
  EXPECT_EQ(position.request, 2u);
  EXPECT_EQ(position.error, "its program was built with an SDK that knows no such request");
  supervisor.send(PauseWorkers{.step = "pause"});
  EXPECT_EQ(names(printed_until(supervisor, 0, MessageType::PauseWorkers, arrived)),
            (std::vector<std::string>{"Welcome", "PauseWorkers"}));
}

TEST(Supervisor, IsPreparedOnceItSeesTheLaunchersMark) {
  SupervisorProcess supervisor;
  supervisor.attach(1);
  supervisor.prepare(1, /*standby=*/false, "mark");  // generation 0

  ::mkdir((supervisor.dir() + "/run").c_str(), 0755);
  std::ofstream(supervisor.dir() + "/mark") << "mark";
  std::filesystem::rename(supervisor.dir() + "/mark", supervisor.dir() + "/run/.probe-0");

  supervisor.wait_for<Prepared>();
  std::filesystem::remove(supervisor.dir() + "/run/.probe-0");
  EXPECT_TRUE(std::filesystem::is_empty(supervisor.dir() + "/run"));
}

TEST(Supervisor, SaysWhatIsWrongWithTheStorage) {
  SupervisorProcess supervisor;
  std::filesystem::create_directories(supervisor.dir() + "/run/.probe-0");
  supervisor.attach(1);

  supervisor.prepare(1, /*standby=*/false, "mark");

  const auto failed = supervisor.wait_for<StartFailed>();
  EXPECT_EQ(failed.code, "io");
  EXPECT_EQ(failed.message, "reading '" + supervisor.dir() + "/run/.probe-0': Is a directory");
}

TEST(Supervisor, ThoseThatStandByEndWithIt) {
  SupervisorProcess supervisor;
  const PidPipe pid(supervisor.dir() + "/pid");
  supervisor.attach(1);
  supervisor.stand_by(1, "echo $$ > pid; exec sleep 1000");
  const pid_t waiting = pid.read();

  supervisor.send(ReleaseAttempt{});

  EXPECT_EQ(supervisor.wait_for_end(), 0);
  EXPECT_TRUE(ends(waiting));
}

TEST(Supervisor, EndsWithoutALauncherThoughItsOutputIsNowhere) {
  SupervisorProcess supervisor;
  supervisor.attach(1);
  supervisor.start({"head -c 700000 /dev/zero"});  // more than it sends unacknowledged
  supervisor.wait_for<WorkerExited>();

  supervisor.send(LauncherState{.present = false, .generation = 1, .orphan_timeout_ms = 0});

  EXPECT_EQ(supervisor.wait_for_end(), 0);
}

}  // namespace
}  // namespace train
