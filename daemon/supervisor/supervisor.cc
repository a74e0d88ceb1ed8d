#include "daemon/supervisor/supervisor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include "daemon/supervisor/master_port.h"
#include "daemon/supervisor/network_interface.h"
#include "daemon/supervisor/spawn.h"
#include "daemon/supervisor/worker_environment.h"
#include "daemon/supervisor/worker_port.h"
#include "daemon/supervisor/worker_seat.h"
#include "lib/net/notifier.h"
#include "lib/net/within.h"
#include "lib/storage/checkpoint_writer.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

constexpr Duration kOutputDelayMax =
    milliseconds(100);  // of the news of a death, for its last lines
constexpr Duration kOutputEndMax =
    seconds(2);  // for pipes that something outside our reach keeps open
constexpr std::size_t kOutputWindowBytes = 256u << 10;  // sent and not acknowledged, a stream
constexpr std::size_t kOutputChunkBytes = 64u << 10;

class Supervisor {
 public:
  explicit Supervisor(const SupervisorOptions& options)
      : options_(options),
        executor_(context_.get_executor()),
        changed_(executor_),
        group_(seconds(30), milliseconds(options.orphan_timeout_ms), clock_.now()),
        scope_(executor_) {}

  int run();

 private:
  // links to traind
  asio::awaitable<void> accept_links();
  asio::awaitable<void> serve_link(std::unique_ptr<Connection> connection);
  void received(const Frame& frame);
  void send_up(const Frame& frame);
  void send_lifecycle(Frame frame);
  void send_everything_again();
  asio::awaitable<void> send_gone_again(Frame gone);

  // frames of the launcher
  void on_prepare(const PrepareAttempt& message);
  void on_start(StartWorkers message);
  void on_ack_reports(const AckReports& message);
  void on_ack_output(const AckOutput& message);

  // workers
  void feed(const GroupEvent& event);
  void perform(const GroupAction& action);
  asio::awaitable<void> spawn_worker(Rank rank);
  Result<pid_t> start_process(WorkerSeat& seat, int stdout_fd, int stderr_fd);
  asio::awaitable<void> pump(Rank rank, std::size_t stream, int fd);
  asio::awaitable<void> watch(Rank rank, pid_t pid);
  asio::awaitable<void> send_output(Rank rank, std::size_t stream);
  asio::awaitable<void> stage(Rank rank, CheckpointStaged message);
  void send_exit(WorkerSeat& seat);
  void sweep(WorkerSeat& seat);
  Result<Welcome> welcome(const WorkerHello& hello);
  void from_worker(Rank rank, Frame frame);
  void on_once_begin(Rank rank, const std::string& name);
  void on_once_end(const OnceEnd& message);
  asio::awaitable<void> tick_loop();
  asio::awaitable<void> finish(std::string reason);
  std::string staging_dir(Rank rank) const;

  struct Once {
    enum class State { Running, Done, Failed } state = State::Running;
    std::string error;
    std::vector<Rank> waiting;
  };

  SupervisorOptions options_;
  SystemClock clock_;
  asio::io_context context_;
  asio::any_io_executor executor_;
  asio::thread_pool storage_pool_{1};
  PosixFileSystem files_;
  Notifier changed_;  // seats, links, group: whoever waits looks again
  WorkerGroup group_;
  std::unique_ptr<Listener> listener_;
  Connection* link_ = nullptr;  // the newest; owned by its serve_link()
  std::optional<PrepareAttempt> prepare_;
  std::optional<StartWorkers> start_;
  std::optional<MasterPort> master_port_;
  std::optional<Cgroup> cgroup_;
  std::unique_ptr<WorkerPort> workers_;
  std::map<Rank, WorkerSeat> seats_;
  std::vector<Frame> lifecycle_;  // said so far, for a launcher that attaches again
  bool gone_waits_ = false;       // a send_gone_again() is under way
  std::map<std::string, Once> once_;
  bool finishing_ = false;
  Scope scope_;
};

int Supervisor::run() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGINT, SIG_IGN);  // the terminal's Ctrl-C is the launcher's to handle
  ::mkdir(options_.spool_dir.c_str(), 0700);
  if (!options_.cgroup_name.empty()) cgroup_ = Cgroup::create(options_.cgroup_name);
  auto listener = Listener::listen(executor_, Endpoint::unix_socket(options_.socket_path));
  if (!listener) {
    fmt::print(stderr, "traind supervise: {}\n", listener.error().describe());
    return 74;
  }
  listener_ = std::move(*listener);
  scope_.spawn("accept traind", accept_links());
  if (auto first = Connection::adopt(executor_, options_.link_fd))
    scope_.spawn("traind", serve_link(std::move(*first)));
  scope_.spawn("deadlines", tick_loop());
  context_.run();
  storage_pool_.join();
  return 0;
}

// ---- links to traind

asio::awaitable<void> Supervisor::accept_links() {
  for (;;) {
    auto connection = co_await listener_->accept();
    if (!connection) co_return;
    const auto peer = (*connection)->credentials();
    if (peer && peer->uid == ::geteuid())
      scope_.spawn("traind", serve_link(std::move(*connection)));
  }
}

asio::awaitable<void> Supervisor::serve_link(std::unique_ptr<Connection> connection) {
  if (link_ != nullptr) link_->close();
  link_ = connection.get();
  link_->send(encode(SupervisorHello{options_.run_id, options_.attempt.value, ::getpid(),
                                     options_.claimed, options_.gpu_ids, options_.build},
                     options_.attempt));
  for (;;) {
    auto frame = co_await connection->receive();
    if (!frame) break;
    received(*frame);
  }
  if (link_ == connection.get()) {
    link_ = nullptr;
    feed(LauncherPresence{false});
  }
}

void Supervisor::send_up(const Frame& frame) {
  if (link_ != nullptr) link_->send(frame);
}

void Supervisor::send_lifecycle(Frame frame) {
  send_up(frame);
  lifecycle_.push_back(std::move(frame));
}

// A launcher (or its new incarnation, or the old one over a new link) is there: say all that it may
// have missed. Receivers know what they have already.
void Supervisor::send_everything_again() {
  AttemptSnapshot snapshot{
      std::string(to_string(group_.phase())), master_port_ ? master_port_->port() : 0u, {}};
  for (const auto& [rank, pid] : group_.alive()) snapshot.alive.push_back({rank.value, pid});
  send_up(encode(snapshot, options_.attempt));
  // Reports and parts first: an exit or the group's end says that nothing of it is missing.
  for (auto& [rank, seat] : seats_) {
    for (const auto& [ordinal, frame] : seat.reports.frames()) send_up(frame);
    for (const auto& [index, frame] : seat.unsettled_parts) send_up(frame);
    for (const auto& [sequence, frame] : seat.unanswered_collectives) send_up(frame);
    for (OutputStream& stream : seat.streams) {
      stream.sent = stream.acked;
      stream.end_sent = false;
    }
  }
  for (const Frame& frame : lifecycle_) {
    if (frame.type != MessageType::GroupGone)
      send_up(frame);
    else if (!gone_waits_)
      scope_.spawn("say again that the group is gone", send_gone_again(frame));
  }
  changed_.notify();
}

// After the output: it says that nothing of that is missing either.
asio::awaitable<void> Supervisor::send_gone_again(Frame gone) {
  gone_waits_ = true;
  const auto output_is_sent = [this] {
    return std::all_of(seats_.begin(), seats_.end(), [](const auto& entry) {
      return std::all_of(
          entry.second.streams.begin(), entry.second.streams.end(), [](const OutputStream& stream) {
            return stream.ended ? stream.end_sent : stream.sent == stream.spool.total();
          });
    });
  };
  while (!output_is_sent()) {
    if (!co_await changed_.wait_until(TimePoint::max())) break;
  }
  gone_waits_ = false;
  send_up(gone);
}

void Supervisor::received(const Frame& frame) {
  const auto ignore = [](const Error&) {
  };  // traind decoded nothing; a bad message from it is dropped, the link's checksum held
  switch (frame.type) {
    case MessageType::LauncherState: {
      auto state = decode<LauncherState>(frame);
      if (!state) return ignore(state.error());
      group_.set_limits(milliseconds(prepare_ ? prepare_->stop_grace_ms : 30000),
                        milliseconds(state->orphan_timeout_ms));
      feed(LauncherPresence{state->present});
      if (state->present) send_everything_again();
      return;
    }
    case MessageType::PrepareAttempt:
      if (auto message = decode<PrepareAttempt>(frame)) on_prepare(*message);
      return;
    case MessageType::StartWorkers:
      if (auto message = decode<StartWorkers>(frame)) on_start(std::move(*message));
      return;
    case MessageType::StopWorkers:
      if (auto message = decode<StopWorkers>(frame))
        feed(GroupStop{milliseconds(message->grace_ms), message->reason});
      return;
    case MessageType::AckReports:
      if (auto message = decode<AckReports>(frame)) on_ack_reports(*message);
      return;
    case MessageType::AckOutput:
      if (auto message = decode<AckOutput>(frame)) on_ack_output(*message);
      return;
    case MessageType::CheckpointOutcome:
      if (auto message = decode<CheckpointOutcome>(frame)) {
        for (auto& [rank, seat] : seats_) seat.unsettled_parts.erase(message->index);
      }
      if (workers_) workers_->send_to_all(frame);
      return;
    case MessageType::CollectiveResult:
      if (auto message = decode<CollectiveResult>(frame)) {
        for (auto& [rank, seat] : seats_) seat.unanswered_collectives.erase(message->sequence);
      }
      if (workers_) workers_->send_to_all(frame);
      return;
    case MessageType::PauseWorkers:
      if (workers_) workers_->send_to_all(frame);
      return;
    case MessageType::ReleaseAttempt:
      feed(GroupRelease{});
      return;
    default:
      return;  // of a newer protocol
  }
}

// ---- frames of the launcher

void Supervisor::on_prepare(const PrepareAttempt& message) {
  if (prepare_) return;
  prepare_ = message;
  group_.set_limits(milliseconds(message.stop_grace_ms), milliseconds(options_.orphan_timeout_ms));
  if (message.bind_master) {
    auto port = MasterPort::bind(message.bind_address);
    if (!port) {
      send_lifecycle(encode(StartFailed{0, std::string(to_string(port.error().code)),
                                        port.error().message, port.error().hint},
                            options_.attempt));
      return;
    }
    master_port_.emplace(std::move(*port));
  }
  send_lifecycle(encode(Prepared{message.node_rank, master_port_ ? master_port_->port() : 0u,
                                 ::getpid(), options_.spool_dir},
                        options_.attempt));
}

void Supervisor::on_start(StartWorkers message) {
  if (start_) return;
  start_ = std::move(message);
  WorkerPort::Handlers handlers;
  handlers.welcome = [this](const WorkerHello& hello) { return welcome(hello); };
  handlers.joined = [this](Rank rank, const WorkerHello& hello) {
    seats_.at(rank).connected = true;
    send_lifecycle(encode(WorkerJoined{rank.value, hello.build}, options_.attempt));
  };
  handlers.received = [this](Rank rank, Frame frame) { from_worker(rank, std::move(frame)); };
  handlers.closed = [this](Rank rank) {
    seats_.at(rank).connected = false;
    changed_.notify();
  };
  auto port = WorkerPort::open(executor_, options_.spool_dir + "/worker.sock", options_.attempt,
                               std::move(handlers));
  if (!port) {
    send_lifecycle(encode(StartFailed{0, std::string(to_string(port.error().code)),
                                      port.error().message, port.error().hint},
                          options_.attempt));
    return;
  }
  workers_ = std::move(*port);
  GroupStart group;
  for (const WorkerPlan& plan : start_->workers) {
    seats_[Rank{plan.rank}].plan = plan;
    group.ranks.push_back(Rank{plan.rank});
  }
  feed(group);
}

void Supervisor::on_ack_reports(const AckReports& message) {
  for (const ReportAck& ack : message.acks) {
    const auto seat = seats_.find(Rank{ack.rank});
    if (seat == seats_.end()) continue;
    seat->second.reports.acknowledge(ack.ordinal);
    if (workers_) workers_->send(seat->first, encode(AckReports{{ack}}, options_.attempt));
  }
}

void Supervisor::on_ack_output(const AckOutput& message) {
  const auto seat = seats_.find(Rank{message.rank});
  if (seat == seats_.end()) return;
  for (OutputStream& stream : seat->second.streams) {
    if (stream.number == message.stream) stream.acked = std::max(stream.acked, message.offset);
  }
  changed_.notify();
}

// ---- workers

void Supervisor::feed(const GroupEvent& event) {
  for (const GroupAction& action : group_.handle(event, clock_.now())) perform(action);
  changed_.notify();
}

void Supervisor::perform(const GroupAction& action) {
  if (const auto* spawn = std::get_if<SpawnWorker>(&action)) {
    scope_.spawn(fmt::format("rank {}", spawn->rank.value), spawn_worker(spawn->rank));
  } else if (const auto* signal = std::get_if<SignalWorker>(&action)) {
    WorkerSeat& seat = seats_.at(signal->rank);
    if (signal->signal == SIGKILL) sweep(seat);
    if (seat.pid > 0) {
      ::kill(static_cast<pid_t>(-seat.pid), signal->signal);  // its session's process group
      ::kill(static_cast<pid_t>(seat.pid), signal->signal);
    }
  } else if (const auto* swept = std::get_if<SweepWorker>(&action)) {
    sweep(seats_.at(swept->rank));
  } else if (const auto* started = std::get_if<TellStarted>(&action)) {
    WorkersStarted message;
    for (const auto& [rank, pid] : started->pids) message.workers.push_back({rank.value, pid});
    send_lifecycle(encode(message, options_.attempt));
  } else if (const auto* failed = std::get_if<TellStartFailed>(&action)) {
    send_lifecycle(
        encode(StartFailed{failed->rank.value, std::string(to_string(failed->error.code)),
                           failed->error.message, failed->error.hint},
               options_.attempt));
  } else if (const auto* exited = std::get_if<TellExited>(&action)) {
    seats_.at(exited->rank).exit = *exited;  // watch() sends it, with the last lines
  } else if (std::holds_alternative<TellGone>(action)) {
    send_lifecycle(encode(GroupGone{}, options_.attempt));
  } else if (const auto* end = std::get_if<EndSupervisor>(&action)) {
    if (!finishing_) scope_.spawn("finish", finish(end->reason));
    finishing_ = true;
  }
}

void Supervisor::sweep(WorkerSeat& seat) {
  if (seat.cgroup) return seat.cgroup->kill();
  std::string known;
  for (const auto& [rank, pid] : group_.alive()) known += fmt::format("{} ", pid);
  kill_adopted_children(known);
}

asio::awaitable<void> Supervisor::spawn_worker(Rank rank) {
  WorkerSeat& seat = seats_.at(rank);
  int out[2] = {-1, -1}, err[2] = {-1, -1};
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) {
    const Error error = system_error(errno, "making the output pipes");
    for (int fd : {out[0], out[1]})
      if (fd >= 0) ::close(fd);
    feed(WorkerSpawnFailed{rank, error});
    co_return;
  }
  const Result<pid_t> pid = start_process(seat, out[1], err[1]);
  ::close(out[1]);
  ::close(err[1]);
  if (!pid) {
    ::close(out[0]);
    ::close(err[0]);
    feed(WorkerSpawnFailed{rank, pid.error()});
    co_return;
  }
  seat.pid = *pid;
  scope_.spawn("stdout", pump(rank, 0, out[0]));
  scope_.spawn("stderr", pump(rank, 1, err[0]));
  scope_.spawn("send stdout", send_output(rank, 0));
  scope_.spawn("send stderr", send_output(rank, 1));
  scope_.spawn("watch", watch(rank, *pid));
  feed(WorkerSpawned{rank, *pid});
}

Result<pid_t> Supervisor::start_process(WorkerSeat& seat, int stdout_fd, int stderr_fd) {
  const Rank rank{seat.plan.rank};
  for (const std::uint8_t number : {std::uint8_t{1}, std::uint8_t{2}}) {
    TRY(auto spool, OutputSpool::create(fmt::format("{}/rank-{:04}.{}", options_.spool_dir,
                                                    rank.value, number == 1 ? "out" : "err"),
                                        prepare_->output_bytes_max));
    seat.streams.push_back(OutputStream{.spool = std::move(spool), .number = number});
  }
  if (cgroup_) seat.cgroup = cgroup_->create_child(fmt::format("rank-{:04}", rank.value));
  seat.error_file = fmt::format("{}/rank-{:04}.error.json", options_.spool_dir, rank.value);
  SpawnRequest request{
      .argv = start_->command,
      .working_dir = start_->working_dir,
      .env = worker_environment({*start_, seat.plan, static_cast<int>(start_->workers.size()),
                                 options_.attempt, options_.spool_dir + "/worker.sock",
                                 staging_dir(rank), seat.error_file,
                                 interface_of(prepare_->bind_address)}),
      .stdout_fd = stdout_fd,
      .stderr_fd = stderr_fd,
      .inherit_fds = {},
      .cgroup_procs = seat.cgroup ? seat.cgroup->procs_path() : ""};
  if (rank.value == 0 && master_port_) request.inherit_fds.push_back(master_port_->fd());
  return spawn_process(executor_, request);
}

asio::awaitable<void> Supervisor::pump(Rank rank, std::size_t number, int fd) {
  asio::posix::stream_descriptor pipe(executor_, fd);
  WorkerSeat& seat = seats_.at(rank);
  std::vector<char> buffer(kOutputChunkBytes);
  for (;;) {
    const auto [error, size] =
        co_await pipe.async_read_some(asio::buffer(buffer), asio::as_tuple(asio::use_awaitable));
    if (error) break;
    seat.streams[number].spool.append({buffer.data(), size});
    seat.last_lines.append({buffer.data(), size});
    changed_.notify();
  }
  seat.streams[number].ended = true;
  changed_.notify();
}

// The launcher acknowledges what is in the run's folder; a small window keeps one noisy worker from
// filling every queue.
asio::awaitable<void> Supervisor::send_output(Rank rank, std::size_t number) {
  OutputStream& stream = seats_.at(rank).streams[number];
  for (;;) {
    while (link_ != nullptr && stream.sent < stream.spool.total() &&
           stream.sent - stream.acked < kOutputWindowBytes) {
      std::uint64_t offset = stream.sent;
      std::string data = stream.spool.read(offset, kOutputChunkBytes);
      stream.sent = offset + data.size();
      if (offset > stream.acked + kOutputWindowBytes)
        stream.acked = offset;  // the ring has moved on: this much is lost
      send_up(encode(OutputChunk{rank.value, stream.number, offset, std::move(data), false},
                     options_.attempt));
    }
    if (link_ != nullptr && stream.ended && !stream.end_sent &&
        stream.sent == stream.spool.total()) {
      stream.end_sent = true;
      send_up(
          encode(OutputChunk{rank.value, stream.number, stream.sent, "", true}, options_.attempt));
      changed_.notify();
    }
    if (!co_await changed_.wait_until(TimePoint::max())) co_return;
  }
}

asio::awaitable<void> Supervisor::watch(Rank rank, pid_t pid) {
  WorkerSeat& seat = seats_.at(rank);
  auto status = co_await wait_for_end(executor_, pid);
  if (!status) co_return;
  feed(WorkerReaped{rank, *status});
  seat.pid = 0;
  const TimePoint died = clock_.now();
  while (!seat.output_ended() && clock_.now() < died + kOutputDelayMax) {
    if (!co_await changed_.wait_until(died + kOutputDelayMax) &&
        clock_.now() < died + kOutputDelayMax)
      break;
  }
  send_exit(seat);
  const TimePoint give_up = died + kOutputEndMax;
  const auto drained = [&] {
    return seat.output_ended() && (seat.output_sent() || link_ == nullptr) && !seat.connected &&
           seat.staging == 0;
  };
  while (!drained()) {
    const bool pipes_kept_open = !seat.output_ended() && clock_.now() >= give_up;
    if (pipes_kept_open && !seat.connected && seat.staging == 0) break;
    auto woken = co_await changed_.wait_until(clock_.now() < give_up ? give_up : TimePoint::max());
    if (!woken) break;
  }
  feed(WorkerDrained{rank});
}

void Supervisor::send_exit(WorkerSeat& seat) {
  if (!seat.exit || seat.exit_sent) return;
  seat.exit_sent = true;
  const TellExited& exit = *seat.exit;
  WorkerExited message;
  message.rank = seat.plan.rank;
  message.pid = exit.pid;
  message.signaled = exit.status.signaled;
  message.status = exit.status.status;
  message.core_dumped = exit.status.core_dumped;
  message.stop_requested = exit.stop_requested;
  message.oom_killed = seat.cgroup && seat.cgroup->oom_kills().value_or(0) > 0;
  message.wall_us =
      std::chrono::duration_cast<std::chrono::microseconds>(clock_.wall().time_since_epoch())
          .count();
  message.last_lines = seat.last_lines.lines();
  if (!seat.error) seat.error = read_error_file(seat.error_file);
  if (seat.error) message.errors.push_back(*seat.error);
  message.last_ordinal = seat.reports.last_ordinal();
  send_lifecycle(encode(message, options_.attempt));
}

std::string Supervisor::staging_dir(Rank rank) const {
  return fmt::format("{}/checkpoints/.staging-{}/rank-{:04}", prepare_->run_dir,
                     options_.attempt.value, rank.value);
}

Result<Welcome> Supervisor::welcome(const WorkerHello& hello) {
  const auto seat = seats_.find(Rank{hello.rank});
  if (seat == seats_.end() || hello.attempt != options_.attempt.value) {
    return Error{Errc::Fenced,
                 fmt::format("rank {} of attempt {} does not belong to attempt {} on this node",
                             hello.rank, hello.attempt, options_.attempt.value)};
  }
  if (hello.protocol_min > kProtocolMax || hello.protocol_max < kProtocolMin) {
    return Error{
        Errc::Protocol,
        fmt::format("the worker's SDK ({}) speaks protocol {} to {}, this traind ({}) {} to {}",
                    hello.build, hello.protocol_min, hello.protocol_max, options_.build,
                    kProtocolMin, kProtocolMax),
        "build the worker against the SDK of this version, or upgrade traind"};
  }
  TRY_VOID(make_folders(files_, staging_dir(Rank{hello.rank})));
  const bool first = hello.rank == 0;
  return Welcome{.protocol = std::min(hello.protocol_max, kProtocolMax),
                 .world_size = start_->world_size,
                 .rank = hello.rank,
                 .local_rank = seat->second.plan.local_rank,
                 .local_world_size = static_cast<std::int32_t>(start_->workers.size()),
                 .node_rank = start_->node_rank,
                 .node_count = start_->node_count,
                 .attempt = options_.attempt.value,
                 .run_id = start_->run_id,
                 .run_name = start_->run_name,
                 .run_dir = prepare_->run_dir,
                 .staging_dir = staging_dir(Rank{hello.rank}),
                 .config_json = start_->config_json,
                 .metadata_json = start_->metadata_json,
                 .datasets_json = start_->datasets_json,
                 .master_addr = start_->master_addr,
                 .master_port = start_->master_port,
                 .master_listen_fd = first && master_port_ ? master_port_->fd() : -1,
                 .collectives = start_->collectives,
                 .collective_timeout_ms = start_->collective_timeout_ms,
                 .restore_dir = start_->restore_dir,
                 .restored_epoch = start_->restored_epoch};
}

void Supervisor::from_worker(Rank rank, Frame frame) {
  WorkerSeat& seat = seats_.at(rank);
  frame.attempt = options_.attempt;
  switch (frame.type) {
    case MessageType::ReportBatch:
      if (auto batch = decode<ReportBatch>(frame)) {
        seat.reports.add(batch->first_ordinal + batch->count - 1, frame);
        send_up(frame);
      }
      return;
    case MessageType::CheckpointStaged:
      if (auto message = decode<CheckpointStaged>(frame)) {
        ++seat.staging;
        scope_.spawn("stage", stage(rank, std::move(*message)));
      }
      return;
    case MessageType::CollectiveJoin:
      if (auto message = decode<CollectiveJoin>(frame)) {
        seat.unanswered_collectives[message->sequence] = frame;
        send_up(frame);
      }
      return;
    case MessageType::WorkerPaused:
    case MessageType::WorkerResult:
      send_lifecycle(std::move(frame));
      return;
    case MessageType::WorkerError:
      if (auto message = decode<WorkerError>(frame)) seat.error = message->error;
      return;
    case MessageType::OnceBegin:
      if (auto message = decode<OnceBegin>(frame)) on_once_begin(rank, message->name);
      return;
    case MessageType::OnceEnd:
      if (auto message = decode<OnceEnd>(frame)) on_once_end(*message);
      return;
    case MessageType::WorkerGoodbye:
      workers_->send(rank, encode(GoodbyeAck{}, options_.attempt));
      return;
    default:
      return;
  }
}

void Supervisor::on_once_begin(Rank rank, const std::string& name) {
  const auto [entry, first] = once_.try_emplace(name);
  if (first) return workers_->send(rank, encode(OnceReply{name, "run", ""}, options_.attempt));
  switch (entry->second.state) {
    case Once::State::Running:
      entry->second.waiting.push_back(rank);
      return;
    case Once::State::Done:
      return workers_->send(rank, encode(OnceReply{name, "done", ""}, options_.attempt));
    case Once::State::Failed:
      return workers_->send(
          rank, encode(OnceReply{name, "failed", entry->second.error}, options_.attempt));
  }
}

void Supervisor::on_once_end(const OnceEnd& message) {
  Once& once = once_[message.name];
  once.state = message.error.empty() ? Once::State::Done : Once::State::Failed;
  once.error = message.error;
  for (Rank rank : std::exchange(once.waiting, {})) on_once_begin(rank, message.name);
}

// Runs on the storage pool: digest, sync and move the staged files; nobody waits for it but the
// checkpoint.
asio::awaitable<void> Supervisor::stage(Rank rank, CheckpointStaged message) {
  PartWritten part{.rank = rank.value,
                   .index = message.index,
                   .report_ordinal = message.report_ordinal,
                   .dir = {},
                   .files = {},
                   .metadata_json = message.metadata_json,
                   .error = message.error};
  if (message.error.empty()) {
    const PendingCheckpoint pending{Epoch{prepare_->epoch}, options_.attempt,
                                    Ordinal{message.index}};
    const std::string folder = prepare_->run_dir + "/checkpoints";
    const auto written = co_await asio::co_spawn(
        storage_pool_,
        [](PosixFileSystem& files, std::string to, PendingCheckpoint which, Rank who,
           std::string from) -> asio::awaitable<std::optional<Result<CheckpointPart>>> {
          co_return write_part(files, to, which, who, from);
        }(files_, folder, pending, rank, message.dir),
        asio::use_awaitable);
    if (*written) {
      part.dir = (**written).folder;
      for (const PartFile& file : (**written).files)
        part.files.push_back({file.path, file.bytes, to_hex(file.digest)});
      (void)remove_tree(files_, message.dir);
    } else {
      part.error = written->error().describe();
    }
  }
  WorkerSeat& seat = seats_.at(rank);
  const Frame frame = encode(part, options_.attempt);
  seat.unsettled_parts[part.index] = frame;
  send_up(frame);
  --seat.staging;
  changed_.notify();
}

// ---- time and the end

asio::awaitable<void> Supervisor::tick_loop() {
  while (!finishing_) {
    const auto deadline = group_.next_deadline();
    if (deadline && clock_.now() >= *deadline) {
      feed(GroupTick{});
      continue;
    }
    auto woken = co_await changed_.wait_until(deadline.value_or(TimePoint::max()));
    if (!woken && !deadline) co_return;
    if (!woken && woken.error().code == Errc::Cancelled) co_return;
  }
}

asio::awaitable<void> Supervisor::finish(std::string) {
  if (link_ != nullptr) (void)co_await within(seconds(1), link_->flush());
  if (workers_) co_await workers_->close();
  if (cgroup_) {
    cgroup_->kill();
    cgroup_->remove();
  }
  listener_->close();
  if (prepare_)
    (void)remove_tree(files_, fmt::format("{}/checkpoints/.staging-{}", prepare_->run_dir,
                                          options_.attempt.value));
  (void)remove_tree(files_, options_.spool_dir);
  ::fflush(nullptr);
  ::_exit(0);  // every worker is reaped and every file closed; waiting for the other flows would
               // change nothing
}

}  // namespace

int run_supervisor(const SupervisorOptions& options) { return Supervisor(options).run(); }

}  // namespace train
