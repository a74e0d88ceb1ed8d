#include "daemon/supervisor/supervisor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "daemon/supervisor/checkpoints/node_checkpoints.h"
#include "daemon/supervisor/core/worker_ending.h"
#include "daemon/supervisor/group_messages.h"
#include "daemon/supervisor/limits/oom_watch.h"
#include "daemon/supervisor/master_port.h"
#include "daemon/supervisor/network_interface.h"
#include "daemon/supervisor/output/output_pump.h"
#include "daemon/supervisor/uplink.h"
#include "daemon/supervisor/workers/adopted.h"
#include "daemon/supervisor/workers/answered_collectives.h"
#include "daemon/supervisor/workers/leftover_reaper.h"
#include "daemon/supervisor/workers/spawn.h"
#include "daemon/supervisor/workers/validation_runner.h"
#include "daemon/supervisor/workers/worker_environment.h"
#include "daemon/supervisor/workers/worker_messages.h"
#include "daemon/supervisor/workers/worker_port.h"
#include "daemon/supervisor/workers/worker_slot.h"
#include "daemon/supervisor/workers/worker_welcome.h"
#include "lib/base/leave.h"
#include "lib/base/open_files.h"
#include "lib/base/overloaded.h"
#include "lib/base/print.h"
#include "lib/base/secrets.h"
#include "lib/net/notifier.h"
#include "lib/net/peer_user.h"
#include "lib/net/within.h"
#include "lib/storage/own_folder.h"
#include "lib/wire/decode_any.h"

namespace train {
namespace {

/// All messages that come down from traind: its own, and those that it relays.
using LauncherMessage =
    AnyOf<LauncherState, PrepareAttempt, StartWorkers, StopWorkers, AckReports, AckOutput,
          CheckpointOutcome, CollectiveResult, PauseWorkers, RunValidation, ReportedCheckpoints,
          ReleaseAttempt, ReadFile, FileBytes, KeepShard>;

constexpr std::uint64_t kSpoolBytesMax = 1u << 30;  // of all our workers

class Supervisor {
 public:
  explicit Supervisor(const SupervisorOptions& options)
      : options_(options),
        executor_(context_.get_executor()),
        changed_(executor_),
        group_(seconds(30), milliseconds(options.orphan_timeout_ms), clock_.now()),
        scope_(executor_),
        uplink_(options.attempt, slots_),
        checkpoints_(executor_, scope_, clock_,
                     {options.attempt, options.spool_dir, options.data_dir},
                     [this](const Frame& frame) { uplink_.send(frame); }),
        messages_(options.attempt,
                  {scope_, changed_, slots_, uplink_, checkpoints_,
                   [this](Rank rank, const Frame& frame) { workers_->send(rank, frame); }}),
        output_(executor_, scope_, changed_, uplink_),
        leftovers_(scope_),
        validations_(executor_, scope_, uplink_) {}

  int run();

 private:
  Result<Unit> make_spool();

  // links to traind
  asio::awaitable<void> accept_links();
  asio::awaitable<void> serve_link(std::unique_ptr<Connection> connection);
  void received(const Frame& frame);
  AttemptSnapshot snapshot() const;

  // what the launcher says
  void on_launcher_state(const LauncherState& state);
  WorkerSlot* slot_of(std::int32_t rank);  // null: none of ours
  void on_prepare(const PrepareAttempt& message);
  asio::awaitable<void> say_prepared();
  void say_what_is_not_held();
  void on_start(StartWorkers message);
  asio::awaitable<void> start_group();
  asio::awaitable<void> validate(RunValidation order);
  Task<Unit> make_ready();
  void on_stand_by(const StartWorkers& message);
  Result<Unit> open_worker_port();
  void on_ack_reports(const AckReports& message);

  // workers
  void feed(const GroupEvent& event);
  void perform(const GroupAction& action);
  asio::awaitable<void> spawn_worker(Rank rank);
  asio::awaitable<void> reap(pid_t pid);
  Result<PipedProcess> process_for(WorkerSlot& slot);
  std::map<std::string, std::string> environment_of(const WorkerSlot& slot) const;
  NodeEnvironment node_environment(const StartWorkers& start) const;
  asio::awaitable<void> watch(Rank rank, pid_t pid);
  void send_exit(WorkerSlot& slot);
  Task<Welcome> welcome(WorkerHello hello);
  Task<Rank> rank_for(const WorkerHello& hello);
  asio::awaitable<void> tick_loop();
  asio::awaitable<void> finish(std::string reason);

  SupervisorOptions options_;
  SystemClock clock_;
  asio::io_context context_;
  asio::any_io_executor executor_;
  Notifier changed_;  // slots, links, group: whoever waits looks again
  WorkerGroup group_;
  std::unique_ptr<Listener> listener_;
  std::optional<PrepareAttempt> prepare_;
  std::optional<StartWorkers> start_;
  std::optional<MasterPort> master_port_;
  Confinement confinement_;
  std::unique_ptr<WorkerPort> workers_;
  std::map<Rank, WorkerSlot> slots_;
  StandbyProcesses standbys_;
  AnsweredCollectives answered_;
  std::optional<Frame> pause_;             // the newest, for those that connect later
  std::uint64_t generation_ = 0;           // the highest of a launcher that we have heard of
  std::uint64_t resolved_checkpoint_ = 0;  // the newest of which we have heard
  bool finishing_ = false;
  Scope scope_;
  Uplink uplink_;
  NodeCheckpoints checkpoints_;
  WorkerMessages messages_;
  OutputPump output_;
  LeftoverReaper leftovers_;
  ValidationRunner validations_;
};

int Supervisor::run() {
  raise_open_files();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  // The launcher handles Ctrl-C in a terminal. Slurm sends TERM and USR1 to all processes of a
  // step.
  for (const int number : kSupervisorIgnores) ::signal(number, SIG_IGN);
  // The socket's file is there before us, and until traind knows that all else is gone: it is how
  // traind finds what a killed supervisor left.
  auto listener = Listener::listen(executor_, FileDescriptor(options_.socket_fd));
  if (!listener) {
    print_err("traind supervise: {}\n", listener.error().describe());
    return 74;
  }
  listener_ = std::move(*listener);
  ask_to_be_spared(-500);
  ::umask(077);  // until PrepareAttempt says what the run's is
  if (const auto made = make_spool(); !made) {
    print_err("traind supervise: {}\n", made.error().describe());
    return 74;
  }
  if (!options_.cgroup_name.empty()) confinement_.make_cgroup(options_.cgroup_name);
  scope_.spawn("accept traind", accept_links());
  if (auto first = Connection::adopt(executor_, options_.link_fd))
    scope_.spawn("traind", serve_link(std::move(*first)));
  scope_.spawn("deadlines", tick_loop());
  scope_.spawn("adopted", reap_adopted(executor_));
  context_.run();
  return 0;
}

/// Make a fresh folder: what a killed supervisor of the same attempt left is of no use.
Result<Unit> Supervisor::make_spool() {
  TRY_VOID(remove_own_folder(options_.spool_dir));
  return make_own_folder(options_.spool_dir);
}

// ---- links to traind

asio::awaitable<void> Supervisor::accept_links() {
  for (;;) {
    auto connection = co_await listener_->accept();
    if (!connection) co_return;
    if (check_peer_user(**connection)) scope_.spawn("traind", serve_link(std::move(*connection)));
  }
}

asio::awaitable<void> Supervisor::serve_link(std::unique_ptr<Connection> connection) {
  uplink_.connect(*connection);
  const PrepareAttempt granted = prepare_.value_or(PrepareAttempt{});
  uplink_.send(SupervisorHello{options_.run_id, options_.attempt.value, ::getpid(), granted.claimed,
                               granted.gpu_ids, options_.build, generation_, granted.standby});
  for (;;) {
    auto frame = co_await connection->receive();
    if (!frame) break;
    received(*frame);
  }
  if (uplink_.disconnect(*connection)) feed(LauncherPresence{false});
}

AttemptSnapshot Supervisor::snapshot() const {
  return snapshot_of(group_, prepare_.has_value(), master_port_ ? master_port_->port() : 0u,
                     resolved_checkpoint_, [this](Rank rank) {
                       const WorkerSlot& slot = slots_.at(rank);
                       return LivingWorker{.joined = slot.connected,
                                           .reported = slot.reports.last_report_seq()};
                     });
}

// Do what a frame asks for; this is the only place that does. The visit has no default: a message
// that nobody takes does not compile.
void Supervisor::received(const Frame& frame) {
  auto message = decode_any<LauncherMessage>(frame);
  if (!message) return;  // traind decoded nothing; the link's checksum held
  std::visit(
      Overloaded{[](const std::monostate&) {},  // of a newer protocol
                 [&](const LauncherState& m) { on_launcher_state(m); },
                 [&](const PrepareAttempt& m) { on_prepare(m); },
                 [&](StartWorkers& m) { on_start(std::move(m)); },
                 [&](const StopWorkers& m) { feed(to_event(m)); },
                 [&](const AckReports& m) { on_ack_reports(m); },
                 [&](const AckOutput& m) {
                   if (WorkerSlot* slot = slot_of(m.rank)) OutputPump::acknowledge(*slot, m);
                   changed_.notify();
                 },
                 [&](const CheckpointOutcome& m) {
                   resolved_checkpoint_ = std::max(resolved_checkpoint_, m.checkpoint_seq);
                   for (auto& [rank, slot] : slots_) slot.unresolved_shards.erase(m.checkpoint_seq);
                   if (workers_) workers_->send_to_all(frame);
                   checkpoints_.tell([&](CheckpointTransport& way) { way.resolved(m); });
                 },
                 [&](CollectiveResult& m) {
                   for (auto& [rank, slot] : slots_) slot.unanswered_collectives.erase(m.sequence);
                   answered_.add(generation_,
                                 std::make_shared<const CollectiveResult>(std::move(m)));
                   if (workers_) workers_->send_to_all(frame);
                 },
                 [&](const PauseWorkers&) {
                   pause_ = frame;
                   if (workers_) workers_->send_to_all(frame);
                 },
                 [&](RunValidation& m) {
                   if (start_) scope_.spawn("validation", validate(std::move(m)));
                 },
                 [&](const ReportedCheckpoints& m) {
                   if (WorkerSlot* slot = slot_of(m.rank)) slot->unanswered_asks.erase(m.request);
                   if (workers_) workers_->send(Rank{m.rank}, frame);
                 },
                 [&](const ReleaseAttempt&) {
                   checkpoints_.give_up();
                   feed(GroupRelease{});
                 },
                 [&](const ReadFile& m) {
                   checkpoints_.tell([&](CheckpointTransport& way) { way.serve(m); });
                 },
                 [&](FileBytes& m) {
                   checkpoints_.tell([&](CheckpointTransport& way) { way.bytes(std::move(m)); });
                 },
                 [&](KeepShard& m) {
                   checkpoints_.tell([&](CheckpointTransport& way) { way.keep(std::move(m)); });
                 }},
      *message);
}

WorkerSlot* Supervisor::slot_of(std::int32_t rank) {
  const auto slot = slots_.find(Rank{rank});
  return slot == slots_.end() ? nullptr : &slot->second;
}

void Supervisor::on_launcher_state(const LauncherState& state) {
  group_.set_limits(milliseconds(prepare_ ? prepare_->stop_grace_ms : 30000),
                    milliseconds(state.orphan_timeout_ms));
  feed(LauncherPresence{state.present});
  generation_ = std::max(generation_, state.generation);
  if (state.present) {
    uplink_.say_everything_again(snapshot(), answered_.from_before(state.generation));
    validations_.say_again();
    checkpoints_.tell([](CheckpointTransport& way) { way.launcher_attached(); });
  }
  changed_.notify();
}

// ---- what the launcher says

void Supervisor::on_prepare(const PrepareAttempt& message) {
  if (prepare_ && !(prepare_->standby && !message.standby)) return;
  prepare_ = message;
  generation_ = std::max(generation_, message.generation);
  group_.set_limits(milliseconds(message.stop_grace_ms), Duration{-1});
  for (const auto& checked :
       {confinement_.set(message), check_open_files(message.local_world_size)}) {
    if (checked) continue;
    uplink_.say_last(encode(start_failed(Rank{0}, checked.error()), options_.attempt));
    return;
  }
  ::umask(confinement_.rules().umask.value_or(077));  // of what we write for the run as well
  if (message.standby) return;
  checkpoints_.prepare(message);
  if (message.bind_master) {
    auto port = MasterPort::bind(message.bind_address);
    if (!port) {
      uplink_.say_last(encode(start_failed(Rank{0}, port.error()), options_.attempt));
      return;
    }
    master_port_.emplace(std::move(*port));
  }
  scope_.spawn("prepare", say_prepared());
}

void Supervisor::say_what_is_not_held() {
  if (confinement_.missing().empty() || options_.attempt.value > 0) return;  // once is enough
  uplink_.send(StorageTrouble{fmt::format(
      "the {} limits of workers are not enforced here: traind cannot write such cgroups",
      fmt::join(confinement_.missing(), ", "))});
}

asio::awaitable<void> Supervisor::say_prepared() {
  say_what_is_not_held();
  const auto checked = co_await checkpoints_.probe();
  if (checked.has_error())
    uplink_.say_last(encode(start_failed(Rank{0}, checked.error()), options_.attempt));
  else
    uplink_.say(Prepared{prepare_->node_rank, master_port_ ? master_port_->port() : 0u, ::getpid(),
                         options_.spool_dir, checkpoints_.relayed()});
}

void Supervisor::on_start(StartWorkers message) {
  if (options_.account) use_account(message, account_environment());
  learn_secrets(message.env);
  if (start_) return;
  if (message.standby > 0) return on_stand_by(message);
  start_ = std::move(message);
  scope_.spawn("start", start_group());
}

asio::awaitable<void> Supervisor::start_group() {
  if (const auto opened = co_await make_ready(); opened.has_error()) {
    uplink_.say_last(encode(start_failed(Rank{0}, opened.error()), options_.attempt));
    co_return;
  }
  if (group_.phase() != GroupPhase::Prepared) co_return;  // stopped meanwhile
  for (const WorkerRanks& worker : start_->workers) {
    WorkerSlot& slot = slots_[Rank{worker.rank}];
    slot.ranks = worker;
    slot.standby = standbys_.take(Rank{worker.rank});
  }
  for (const pid_t pid : standbys_.close()) scope_.spawn("reap", reap(pid));
  feed(to_event(*start_));
}

asio::awaitable<void> Supervisor::validate(RunValidation order) {
  auto folder = co_await checkpoints_.fetch(order.dir);
  if (folder.has_error()) {
    validations_.failed(order, folder.error());
    co_return;
  }
  order.dir = std::move(*folder);
  validations_.run(order, node_environment(*start_), options_.spool_dir + "/validation",
                   confinement_);
}

Task<Unit> Supervisor::make_ready() {
  if (!start_->run.restore_dir.empty()) {
    CO_TRY(start_->run.restore_dir, co_await checkpoints_.fetch(start_->run.restore_dir));
  }
  co_return open_worker_port();
}

// Processes that cannot be started now are started with their attempt, which says why not.
void Supervisor::on_stand_by(const StartWorkers& message) {
  if (workers_ || !prepare_ || open_worker_port().has_error()) return;
  standbys_.start(executor_, node_environment(message), message.standby, confinement_);
}

Result<Unit> Supervisor::open_worker_port() {
  if (workers_) return Unit{};
  WorkerPort::Handlers handlers;
  handlers.welcome = [this](const WorkerHello& hello) { return welcome(hello); };
  handlers.joined = [this](Rank rank, const WorkerHello& hello) {
    slots_.at(rank).connected = true;
    if (pause_) workers_->send(rank, *pause_);
    uplink_.say(WorkerJoined{rank.value, hello.build});
  };
  handlers.received = [this](Rank rank, Frame frame) {
    return messages_.received(rank, std::move(frame));
  };
  handlers.closed = [this](Rank rank) {
    slots_.at(rank).connected = false;
    changed_.notify();
  };
  TRY(workers_, WorkerPort::open(executor_, options_.spool_dir + "/worker.sock", options_.attempt,
                                 std::move(handlers)));
  return Unit{};
}

void Supervisor::on_ack_reports(const AckReports& message) {
  for (const ReportAck& ack : message.acks) {
    const auto slot = slots_.find(Rank{ack.rank});
    if (slot == slots_.end()) continue;
    slot->second.reports.acknowledge(ack.report_seq);
    if (workers_) workers_->send(slot->first, encode(AckReports{{ack}}, options_.attempt));
  }
}

// ---- workers

void Supervisor::feed(const GroupEvent& event) {
  for (const GroupAction& action : group_.handle(event, clock_.now())) perform(action);
  changed_.notify();
}

void Supervisor::perform(const GroupAction& action) {
  std::visit(
      Overloaded{[&](const SpawnWorker& spawn) {
                   scope_.spawn(fmt::format("rank {}", spawn.rank.value), spawn_worker(spawn.rank));
                 },
                 [&](const SignalWorker& signal) {
                   WorkerSlot& slot = slots_.at(signal.rank);
                   if (signal.signal == SIGKILL) leftovers_.reap(slot);
                   if (slot.pid > 0) {
                     ::kill(static_cast<pid_t>(-slot.pid),
                            signal.signal);  // its session's process group
                     ::kill(static_cast<pid_t>(slot.pid), signal.signal);
                   }
                 },
                 [&](const ReapRankLeftovers& reap) { leftovers_.reap(slots_.at(reap.rank)); },
                 [&](const TellStarted& started) {
                   const auto waited = std::count_if(
                       started.pids.begin(), started.pids.end(), [this](const auto& worker) {
                         return slots_.at(worker.first).standby.has_value();
                       });
                   uplink_.say(message_of(started, static_cast<std::int32_t>(waited)));
                 },
                 [&](const TellStartFailed& failed) {
                   uplink_.say_last(encode(message_of(failed), options_.attempt));
                 },
                 [&](const TellExited& exited) {
                   slots_.at(exited.rank).exit = exited;  // watch() sends it, with the last lines
                 },
                 [&](const TellGone&) { uplink_.say_last(encode(GroupGone{}, options_.attempt)); },
                 [&](const EndSupervisor& end) {
                   if (!finishing_) scope_.spawn("finish", finish(end.reason));
                   finishing_ = true;
                 }},
      action);
}

asio::awaitable<void> Supervisor::spawn_worker(Rank rank) {
  WorkerSlot& slot = slots_.at(rank);
  const Result<PipedProcess> process = process_for(slot);
  if (!process) {
    feed(WorkerSpawnFailed{rank, process.error()});
    co_return;
  }
  slot.pid = process->pid;
  output_.start(slot, process->stdout_fd, process->stderr_fd);
  feed(WorkerSpawned{rank, process->pid});  // before its end, which may be there already
  scope_.spawn("watch", watch(rank, process->pid));
  if (slot.cgroup) scope_.spawn("memory", kill_all_when_out_of_memory(executor_, *slot.cgroup));
}

// Take a process from standby, or start a new one.
Result<PipedProcess> Supervisor::process_for(WorkerSlot& slot) {
  const Rank rank{slot.ranks.rank};
  const std::uint64_t share = kSpoolBytesMax / (2 * start_->workers.size());  // of a stream
  TRY_VOID(OutputPump::open_spools(slot, options_.spool_dir,
                                   std::min(prepare_->output_bytes_max, share)));
  slot.error_file = fmt::format("{}/rank-{:04}.error.json", options_.spool_dir, rank.value);
  if (slot.standby) {
    slot.cgroup = slot.standby->cgroup;
    slot.memory = MemoryAccount::begin(slot.cgroup);
    return slot.standby->process;
  }
  slot.cgroup = confinement_.worker_group(fmt::format("rank-{:04}", rank.value));
  slot.memory = MemoryAccount::begin(slot.cgroup);
  SpawnRequest request{.argv = start_->command,
                       .working_dir = start_->working_dir,
                       .env = environment_of(slot),
                       .inherit_fds = {},
                       .cgroup = slot.cgroup,
                       .rules = confinement_.rules()};
  if (rank.value == 0 && master_port_) request.inherit_fds.push_back(master_port_->fd());
  return spawn_piped(executor_, std::move(request));
}

NodeEnvironment Supervisor::node_environment(const StartWorkers& start) const {
  return {start, options_.attempt, options_.spool_dir + "/worker.sock", prepare_->gpu_ids};
}

std::map<std::string, std::string> Supervisor::environment_of(const WorkerSlot& slot) const {
  return worker_environment(node_environment(*start_),
                            {slot.ranks, checkpoints_.staging_folder(Rank{slot.ranks.rank}),
                             slot.error_file, interface_of(prepare_->bind_address)});
}

asio::awaitable<void> Supervisor::reap(pid_t pid) { (void)co_await wait_for_end(executor_, pid); }

asio::awaitable<void> Supervisor::watch(Rank rank, pid_t pid) {
  WorkerSlot& slot = slots_.at(rank);
  auto status = co_await wait_for_end(executor_, pid);
  if (!status) co_return;
  slot.out_of_memory = slot.memory.end(status->signaled && status->status == SIGKILL);
  slot.pids_limit_hit = confinement_.pids_limit_hit(slot.cgroup);
  feed(WorkerReaped{rank, *status});
  slot.pid = 0;
  WorkerEnding ending(clock_.now());
  for (;;) {
    const WorkerEnding::Rest rest{slot.output_ended(), slot.connected, slot.staging > 0};
    switch (ending.advance(rest, clock_.now())) {
      case WorkerEnding::Next::TellEnd:
        send_exit(slot);
        break;
      case WorkerEnding::Next::Drained:
        co_return feed(WorkerDrained{rank});
      case WorkerEnding::Next::Wait: {
        const auto deadline = ending.next_deadline(rest, clock_.now());
        const auto woken = co_await changed_.wait_until(deadline.value_or(TimePoint::max()));
        if (woken.has_error() && woken.error().code == Errc::Cancelled) co_return;
        break;
      }
    }
  }
}

void Supervisor::send_exit(WorkerSlot& slot) {
  if (!slot.exit || slot.exit_sent) return;
  slot.exit_sent = true;
  if (!slot.error) slot.error = read_error_file(slot.error_file);
  uplink_.say(exit_message(slot, clock_.wall()));
}

// Return the rank that the process was started with. For a standby process, return the rank that it
// will have, but not before its output is read.
Task<Rank> Supervisor::rank_for(const WorkerHello& hello) {
  if (hello.standby < 0) {
    if (start_) co_return Rank{hello.rank};
    co_return Error{Errc::Unavailable, "no worker of this supervisor has a rank yet",
                    "a standby program connects with the number in TRAINRUN_STANDBY"};
  }
  for (;;) {
    const auto rank = standbys_.rank_of(hello.standby);
    if (rank && slots_.at(*rank).pid > 0) co_return *rank;
    if (!rank && standbys_.closed())
      co_return Error{Errc::Unavailable, "no rank is left for this standby process"};
    CO_TRY([[maybe_unused]] const bool woken, co_await changed_.wait_until(TimePoint::max()));
  }
}

Task<Welcome> Supervisor::welcome(WorkerHello hello) {
  CO_TRY(const Rank rank, co_await rank_for(hello));
  const auto slot = slots_.find(rank);
  WelcomeInput input{.run = start_->run,
                     .ranks = slot == slots_.end() ? nullptr : &slot->second.ranks,
                     .attempt = options_.attempt,
                     .run_dir = prepare_->run_dir,
                     .staging_dir = checkpoints_.staging_folder(rank),
                     .master_listen_fd = master_port_ ? master_port_->fd() : -1,
                     .build = options_.build};
  if (hello.standby >= 0) {
    hello.rank = rank.value;
    input.master_listen_fd = -1;  // it was not there yet to be inherited
    input.env = not_in(environment_of(slot->second), slot->second.standby->env);
  }
  CO_TRY(auto message, make_welcome(hello, input));
  CO_TRY_VOID(co_await checkpoints_.make_staging_folder(rank));
  co_return message;
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
  if (uplink_.connected()) (void)co_await within(seconds(1), uplink_.link()->flush());
  if (workers_) co_await workers_->close();
  (void)standbys_.close();
  validations_.kill();
  confinement_.end();
  co_await LeftoverReaper::reap_all();
  checkpoints_.clean_up();
  (void)remove_own_folder(options_.spool_dir);
  listener_->close();
  leave_without_unwinding(0);  // every worker is reaped, and every file is closed
}

}  // namespace

// Become the user before all else, but after the program was executed, so that nothing of traind's
// memory is in a process that its user can stop, trace or dump.
int run_supervisor(const SupervisorOptions& options) {
  if (options.account) become(*options.account);
  return Supervisor(options).run();
}

}  // namespace train
