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
#include <functional>
#include <set>
#include <utility>

#include "daemon/supervisor/backends/backends.h"
#include "daemon/supervisor/checkpoints/node_checkpoints.h"
#include "daemon/supervisor/code/program_digests.h"
#include "daemon/supervisor/code/shipped_code.h"
#include "daemon/supervisor/group_messages.h"
#include "daemon/supervisor/output/output_pump.h"
#include "daemon/supervisor/processes/adopted.h"
#include "daemon/supervisor/processes/execute_anew.h"
#include "daemon/supervisor/processes/ingest_pool.h"
#include "daemon/supervisor/processes/leftover_reaper.h"
#include "daemon/supervisor/processes/node_setup_runner.h"
#include "daemon/supervisor/processes/validation_runner.h"
#include "daemon/supervisor/uplink.h"
#include "daemon/supervisor/workers/answered_collectives.h"
#include "daemon/supervisor/workers/profile_taker.h"
#include "daemon/supervisor/workers/stack_taker.h"
#include "daemon/supervisor/workers/waiting_workers.h"
#include "daemon/supervisor/workers/worker_admission.h"
#include "daemon/supervisor/workers/worker_commands.h"
#include "daemon/supervisor/workers/worker_environment.h"
#include "daemon/supervisor/workers/worker_messages.h"
#include "daemon/supervisor/workers/worker_port.h"
#include "daemon/supervisor/workers/worker_runner.h"
#include "daemon/supervisor/workers/worker_sampler.h"
#include "daemon/supervisor/workers/worker_slot.h"
#include "lib/base/leave.h"
#include "lib/base/open_files.h"
#include "lib/base/overloaded.h"
#include "lib/base/print.h"
#include "lib/base/secrets.h"
#include "lib/model/checkpoint_order.h"
#include "lib/net/blocking.h"
#include "lib/net/notifier.h"
#include "lib/net/peer_user.h"
#include "lib/net/within.h"
#include "lib/storage/own_folder.h"
#include "lib/wire/decode_any.h"

namespace train {
namespace {

/// All messages that come down from traind: its own, and those that it relays.
using LauncherMessage =
    AnyOf<LauncherState, PrepareAttempt, StartWorkers, StopWorkers, TakeStacks, TakeProfile,
          CallWorkers, AckReports, AckOutput, CheckpointOutcome, CollectiveResult, PauseWorkers,
          RequestCheckpoint, RunValidation, ReportedCheckpoints, ReleaseAttempt, ReadFile,
          FileBytes, KeepShard, StartIngest, StopIngest, TellIngestRoster>;

constexpr Duration kSampleEvery = seconds(1);
constexpr Duration kDigestsWithin = seconds(20);        // then the nodes are not compared
constexpr std::size_t kSampleQueueBytesMax = 1u << 20;  // on the link; then a sample is left out
constexpr Duration kLeavesWithin = seconds(2);  // from a worker's goodbye to its connection's end

class Supervisor {
 public:
  explicit Supervisor(const SupervisorOptions& options)
      : options_(options),
        executor_(context_.get_executor()),
        changed_(executor_),
        group_(seconds(30), milliseconds(options.orphan_timeout_ms), clock_.now()),
        orders_{options.attempt, options.spool_dir, options.build},
        scope_(executor_),
        uplink_(options.attempt, slots_),
        checkpoints_(executor_, scope_, clock_,
                     {options.attempt, options.spool_dir, options.data_dir},
                     [this](const Frame& frame) { uplink_.send(frame); }),
        code_(executor_, clock_, options.attempt, options.data_dir,
              [this](const Frame& frame) { uplink_.send(frame); }),
        memory_profiles_(executor_, options.attempt,
                         [this](Rank rank, const Frame& frame) { workers_->send(rank, frame); }),
        calls_(options.attempt, slots_, uplink_,
               [this](Rank rank, const Frame& frame) { workers_->send(rank, frame); }),
        messages_(options.attempt,
                  {scope_, changed_, slots_, uplink_, checkpoints_,
                   [this](Rank rank, const Frame& frame) { workers_->send(rank, frame); },
                   [this](Rank rank) {
                     cannot_be_asked(rank, "it has left its loop");
                     calls_.gone(rank, "it has left its loop");
                   },
                   [this](Rank rank) { on_stay(rank); }, memory_profiles_, calls_}),
        backends_({executor_, scope_, options.attempt, slots_, uplink_, orders_, confinement_,
                   [this](Rank rank) { return runner_.environment_of(slots_.at(rank)); }}),
        runner_({executor_, scope_, changed_, clock_, orders_, confinement_, uplink_, checkpoints_,
                 backends_, [this](const GroupEvent& event) { feed(event); }}),
        commands_({executor_, scope_, orders_, confinement_, slots_, uplink_,
                   [this](const WorkerSlot& slot) { return runner_.environment_of(slot); }}),
        admission_({changed_, orders_, slots_, standbys_, runner_, checkpoints_}),
        waiting_({slots_, standbys_, runner_, confinement_, changed_, clock_}),
        validations_(executor_, scope_, uplink_),
        setup_({executor_, scope_, orders_, confinement_, uplink_, options.run_id,
                options.account.has_value()}),
        ingest_({executor_, scope_, orders_, confinement_, uplink_,
                 [this](const std::string& name, const Frame& frame) {
                   if (workers_) workers_->send_to_ingest(name, frame);
                 }}),
        sampler_(slots_),
        stack_taker_(slots_, uplink_, orders_),
        profile_taker_(slots_, uplink_, memory_profiles_) {}

  int run();

 private:
  Result<Unit> make_spool();

  // links to traind
  asio::awaitable<void> accept_links();
  asio::awaitable<void> serve_link(std::unique_ptr<Connection> connection);
  void received(const Frame& frame);
  SupervisorHello hello() const;
  AttemptSnapshot snapshot();

  // messages from the launcher
  void on_launcher_state(const LauncherState& state);
  WorkerSlot* slot_of(std::int32_t rank);  // null: not one of ours
  void on_prepare(const PrepareAttempt& message);
  asio::awaitable<void> say_prepared();
  Task<Unit> set_up(bool stands_by);
  void say_what_is_not_held();
  void on_start(StartWorkers message);
  asio::awaitable<void> start_group();
  asio::awaitable<void> validate(RunValidation order);
  Task<Unit> make_ready();
  asio::awaitable<void> stand_by(StartWorkers message);
  Result<Unit> open_worker_port();
  void on_stay(Rank rank);
  asio::awaitable<void> drop_later(Rank rank);
  void on_ack_reports(const AckReports& message);
  void on_request_checkpoint(const RequestCheckpoint& message, const Frame& frame);
  void on_roster(const TellIngestRoster& message, const Frame& frame);
  void cannot_be_asked(Rank rank, const std::string& why);

  // workers
  void feed(const GroupEvent& event);
  void perform(const GroupAction& action);
  asio::awaitable<void> tick_loop();
  asio::awaitable<void> sample_loop();
  asio::awaitable<void> say_gone(bool stay);
  asio::awaitable<void> end_all_but_workers();
  asio::awaitable<void> begin_anew();
  void take_kept();
  asio::awaitable<void> finish(std::string reason);

  SupervisorOptions options_;
  SystemClock clock_;
  asio::io_context context_;
  asio::any_io_executor executor_;
  Notifier changed_;  // a slot, a link or the group has changed: waiting flows look again
  WorkerGroup group_;
  std::unique_ptr<Listener> listener_;
  FileDescriptor socket_fd_;  // the listener's, to hand on
  AttemptOrders orders_;
  Confinement confinement_;
  std::unique_ptr<WorkerPort> workers_;
  std::map<Rank, WorkerSlot> slots_;
  StandbyProcesses standbys_;
  AnsweredCollectives answered_;
  std::optional<Frame> pause_;   // the newest, for workers that connect later
  std::optional<Frame> roster_;  // likewise, of ingest workers
  std::uint64_t roster_version_ = 0;
  RequestCheckpoint checkpoint_request_;   // the newest; request 0: none
  std::uint64_t generation_ = 0;           // the highest of any launcher so far
  std::uint64_t resolved_checkpoint_ = 0;  // the newest that we know to be resolved
  std::uint64_t to_validate_ = 0;          // the checkpoint of the newest order
  std::set<std::uint64_t> fetching_;       // the checkpoints that are brought here to validate
  bool limits_told_ = false;               // which of them are not enforced
  std::string unread_;                     // of the link that was handed on
  bool finishing_ = false, begins_anew_ = false;
  Scope scope_;
  Uplink uplink_;
  NodeCheckpoints checkpoints_;
  ShippedCode code_;
  MemoryProfiles memory_profiles_;
  WorkerCalls calls_;
  WorkerMessages messages_;
  Backends backends_;
  WorkerRunner runner_;
  WorkerCommands commands_;
  WorkerAdmission admission_;
  WaitingWorkers waiting_;
  ValidationRunner validations_;
  NodeSetupRunner setup_;
  IngestPool ingest_;
  WorkerSampler sampler_;
  StackTaker stack_taker_;
  ProfileTaker profile_taker_;
};

int Supervisor::run() {
  raise_open_files();
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  // The launcher handles Ctrl-C in a terminal. Slurm sends TERM and USR1 to all processes of a
  // step.
  for (const int number : kSupervisorIgnores) ::signal(number, SIG_IGN);
  // traind makes the socket's file before it starts us, and removes it only after everything else:
  // that is how it finds what a killed supervisor left.
  socket_fd_.reset(::fcntl(options_.socket_fd, F_DUPFD_CLOEXEC, 0));
  ::fcntl(options_.socket_fd, F_SETFD, FD_CLOEXEC);
  auto listener = Listener::listen(executor_, FileDescriptor(options_.socket_fd));
  if (!listener) {
    print_err("traind supervise: {}\n", listener.error().describe());
    return 74;
  }
  listener_ = std::move(*listener);
  ask_to_be_spared(-500);
  ::umask(077);  // until PrepareAttempt sets the run's
  if (const auto made = make_spool(); !made) {
    print_err("traind supervise: {}\n", made.error().describe());
    return 74;
  }
  if (!options_.cgroup_name.empty()) confinement_.make_cgroup(options_.cgroup_name);
  if (options_.kept_fd >= 0) take_kept();
  scope_.spawn("accept traind", accept_links());
  if (options_.link_fd >= 0) {
    if (auto first = Connection::adopt(executor_, options_.link_fd, unread_))
      scope_.spawn("traind", serve_link(std::move(*first)));
  }
  scope_.spawn("deadlines", tick_loop());
  scope_.spawn("samples", sample_loop());
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
    if (!check_peer_user(**connection)) continue;
    confinement_.renew();  // a new traind has just handed on the controllers
    ingest_.renew_limits();
    scope_.spawn("traind", serve_link(std::move(*connection)));
  }
}

asio::awaitable<void> Supervisor::serve_link(std::unique_ptr<Connection> connection) {
  uplink_.connect(*connection);
  uplink_.send(hello());
  for (;;) {
    auto frame = co_await connection->receive();
    if (!frame) break;
    if (begins_anew_)
      append_frame(*frame, unread_);  // not for us any more
    else
      received(*frame);
  }
  if (uplink_.disconnect(*connection)) feed(LauncherPresence{false});
}

SupervisorHello Supervisor::hello() const {
  SupervisorHello hello = waiting_.known();
  hello.run_id = options_.run_id;
  hello.attempt = options_.attempt.value;
  hello.pid = ::getpid();
  hello.build = options_.build;
  hello.generation = generation_;
  if (!orders_.prepare) return hello;
  hello.claimed = orders_.prepare->claimed;
  hello.gpus = orders_.prepare->gpus;
  hello.standby = orders_.prepare->standby;
  hello.bindings = orders_.prepare->bindings;
  return hello;
}

AttemptSnapshot Supervisor::snapshot() {
  AttemptSnapshot snapshot = snapshot_of(
      group_, orders_.prepare.has_value(), orders_.master_port ? orders_.master_port->port() : 0u,
      resolved_checkpoint_, checkpoint_request_, [this](Rank rank) {
        const WorkerSlot& slot = slots_.at(rank);
        return LivingWorker{.joined = slot.connected, .reported = slot.reports.last_report_seq()};
      });
  snapshot.ingest = ingest_.places();
  snapshot.roster_version = roster_version_;
  if (!orders_.start) snapshot.kept = waiting_.count();
  return snapshot;
}

// Handle a frame; this is the only place that does. The visit has no default: a message without a
// handler does not compile.
void Supervisor::received(const Frame& frame) {
  auto message = decode_any<LauncherMessage>(frame);
  if (!message) return;  // malformed by its sender: traind relays frames without decoding them
  std::visit(
      Overloaded{
          [](const std::monostate&) {},  // of a newer protocol
          [&](const LauncherState& m) { on_launcher_state(m); },
          [&](const PrepareAttempt& m) { on_prepare(m); },
          [&](StartWorkers& m) { on_start(std::move(m)); },
          [&](const StopWorkers& m) {
            if (m.grace_ms <= 0) backends_.hurry();
            waiting_.set_patience(m.grace_ms);
            feed(to_event(m));
          },
          [&](TakeStacks& m) { scope_.spawn("stacks", stack_taker_.take(std::move(m))); },
          [&](TakeProfile& m) { scope_.spawn("profile", profile_taker_.take(std::move(m))); },
          [&](const CallWorkers& m) { m.command.empty() ? calls_.call(m) : commands_.run(m); },
          [&](const AckReports& m) { on_ack_reports(m); },
          [&](const AckOutput& m) {
            if (WorkerSlot* slot = slot_of(m.rank)) OutputPump::acknowledge(*slot, m);
            uplink_.output_moved();
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
            const auto result = std::make_shared<const CollectiveResult>(std::move(m));
            answered_.add(generation_, result);
            if (!backends_.answered(result) && workers_) workers_->send_to_all(frame);
          },
          [&](const PauseWorkers& m) {
            pause_ = frame;
            for (auto& [rank, slot] : slots_) {
              if (!slot.connected || !slot.ranks.trains()) continue;
              pause_passed_on(slot, m);
              workers_->send(rank, frame);
            }
          },
          [&](const RequestCheckpoint& m) { on_request_checkpoint(m, frame); },
          [&](RunValidation& m) {
            if (orders_.start) scope_.spawn("validation", validate(std::move(m)));
          },
          [&](const StartIngest& m) {
            if (workers_ && orders_.start && group_.phase() != GroupPhase::Gone) ingest_.start(m);
          },
          [&](const StopIngest& m) { ingest_.stop(m); },
          [&](const TellIngestRoster& m) { on_roster(m, frame); },
          [&](const ReportedCheckpoints& m) {
            if (WorkerSlot* slot = slot_of(m.rank)) slot->unanswered_asks.erase(m.request);
            if (workers_) workers_->send(Rank{m.rank}, frame);
          },
          [&](const ReleaseAttempt& m) {
            checkpoints_.give_up();
            feed(to_event(m));
          },
          [&](const ReadFile& m) {
            checkpoints_.tell([&](CheckpointTransport& way) { way.serve(m); });
          },
          [&](FileBytes& m) {
            if (code_.waits_for(m)) return code_.received(std::move(m));
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
  group_.set_limits(milliseconds(orders_.prepare ? orders_.prepare->stop_grace_ms : 30000),
                    milliseconds(state.orphan_timeout_ms));
  feed(LauncherPresence{state.present});
  generation_ = std::max(generation_, state.generation);
  if (state.present) {
    uplink_.say_everything_again(snapshot(), answered_.from_before(state.generation));
    validations_.say_again();
    checkpoints_.tell([](CheckpointTransport& way) { way.launcher_attached(); });
    code_.launcher_attached();
    say_what_is_not_held();
  }
  changed_.notify();
}

// ---- messages from the launcher

void Supervisor::on_prepare(const PrepareAttempt& message) {
  if (orders_.prepare && !(orders_.prepare->standby && !message.standby)) return;
  // Processes that wait have loaded other code.
  if (orders_.prepare ? orders_.prepare->code != message.code : waiting_.have_other(message.code))
    for (const pid_t pid : standbys_.close()) scope_.spawn("reap", runner_.reap(pid));
  orders_.prepare = message;
  if (!message.code.empty())
    for (std::string* folder :
         {&orders_.prepare->setup.working_dir, &orders_.prepare->digests.working_dir})
      *folder = code_.folder_for(message.code);
  generation_ = std::max(generation_, message.generation);
  group_.set_limits(milliseconds(message.stop_grace_ms), Duration{-1});
  for (const auto& checked : {confinement_.set(message), check_open_files(orders_.workers())}) {
    if (checked) continue;
    uplink_.say_last(encode(start_failed(Rank{0}, checked.error()), options_.attempt));
    return;
  }
  ::umask(confinement_.rules().umask.value_or(077));  // also for what we write for the run
  if (message.standby) return;
  checkpoints_.prepare(message);
  if (const auto held = orders_.hold_ports(); !held) {
    uplink_.say_last(encode(start_failed(Rank{0}, held.error()), options_.attempt));
    return;
  }
  scope_.spawn("prepare", say_prepared());
}

// traind passes on nothing of an attempt before the snapshot, which comes once a launcher is there.
void Supervisor::say_what_is_not_held() {
  if (confinement_.missing().empty() || options_.attempt.value > 0) return;  // once is enough
  if (!group_.launcher_present() || std::exchange(limits_told_, true)) return;
  uplink_.send(StorageTrouble{fmt::format(
      "the {} limits of workers are not enforced here: traind cannot write such cgroups",
      fmt::join(confinement_.missing(), ", "))});
}

asio::awaitable<void> Supervisor::say_prepared() {
  say_what_is_not_held();
  auto probing = checkpoints_.probe();
  const auto checked = co_await std::move(probing);
  if (checked.has_error())
    co_return uplink_.say_last(encode(start_failed(Rank{0}, checked.error()), options_.attempt));
  auto setting_up = set_up(/*stands_by=*/false);
  const auto done = co_await std::move(setting_up);
  if (done.has_error()) {
    if (group_.phase() == GroupPhase::Prepared)  // not stopped meanwhile
      uplink_.say_last(encode(start_failed(Rank{0}, done.error()), options_.attempt));
    co_return;
  }
  NodeDigests digests;
  if (const DigestOrder& order = orders_.prepare->digests; !order.command.empty()) {
    std::function<Result<NodeDigests>()> work = [order] {
      return Result<NodeDigests>(program_digests(order));
    };
    auto digesting = run_unjoined<NodeDigests>(std::move(work));
    auto found = co_await within(kDigestsWithin, std::move(digesting));
    if (found) digests = std::move(*found);  // else the node tells nothing, and is not compared
  }
  uplink_.say(Prepared{orders_.prepare->node_rank,
                       orders_.master_port ? orders_.master_port->port() : 0u, ::getpid(),
                       options_.spool_dir, checkpoints_.relayed(), orders_.prepare->notes,
                       std::move(digests), orders_.held_ports()});
}

/// Do all that comes before the first process of the job. While we stand by, workers of another
/// attempt may run in the code's folder.
Task<Unit> Supervisor::set_up(bool stands_by) {
  auto bringing = code_.bring(orders_.prepare->code, /*in_use=*/stands_by);
  CO_TRY(const bool was_whole, co_await std::move(bringing));
  if (!was_whole) orders_.prepare->setup.done_in.clear();  // what it made in the copy is gone
  auto setting_up = setup_.run();
  co_return co_await std::move(setting_up);
}

void Supervisor::on_start(StartWorkers message) {
  if (orders_.prepare && !orders_.prepare->code.empty())
    message.working_dir = code_.folder_for(orders_.prepare->code);
  if (options_.account) use_account(message, account_environment());
  learn_secrets(message.env);
  for (const RoleProgram& role : message.other_roles) learn_secrets(role.env);
  if (orders_.start) return;
  if (message.standby > 0) return scope_.spawn("stand by", stand_by(std::move(message)));
  if (const auto known = check_roles(message, orders_.prepare); !known) {
    uplink_.say_last(encode(start_failed(Rank{0}, known.error()), options_.attempt));
    return;
  }
  orders_.start = std::move(message);
  scope_.spawn("start", start_group());
}

asio::awaitable<void> Supervisor::start_group() {
  if (const auto opened = co_await make_ready(); opened.has_error()) {
    uplink_.say_last(encode(start_failed(Rank{0}, opened.error()), options_.attempt));
    co_return;
  }
  // Stopped meanwhile, or while it stood by: it answers with its end.
  if (group_.phase() != GroupPhase::Prepared) co_return feed(to_event(*orders_.start));
  for (const WorkerRanks& worker : orders_.start->workers) {
    WorkerSlot& slot = slots_[Rank{worker.rank}];
    slot.ranks = worker;
    if (worker.trains())
      slot.standby =
          standbys_.take(Rank{worker.rank}, orders_.node_environment(*orders_.start).gpus);
  }
  for (const pid_t pid : standbys_.close()) scope_.spawn("reap", runner_.reap(pid));
  auto starting = backends_.start();
  const auto started = co_await std::move(starting);
  if (group_.phase() != GroupPhase::Prepared) co_return;  // stopped meanwhile, and told
  if (started.has_error()) {
    auto shutting_down = backends_.shut_down();
    co_await std::move(shutting_down);
    uplink_.say_last(
        encode(start_failed(backends_.failed_rank(), started.error()), options_.attempt));
    co_return;
  }
  feed(to_event(*orders_.start));
}

asio::awaitable<void> Supervisor::validate(RunValidation order) {
  to_validate_ = order.checkpoint;
  if (!fetching_.insert(order.checkpoint).second) co_return;  // the order came again
  auto folder = co_await checkpoints_.fetch_to_validate(order.dir);
  fetching_.erase(order.checkpoint);
  if (to_validate_ != order.checkpoint || finishing_) co_return;  // nobody waits for it any more
  if (folder.has_error()) {
    validations_.failed(order, folder.error());
    co_return;
  }
  order.dir = std::move(*folder);
  validations_.run(order, orders_.node_environment(*orders_.start),
                   options_.spool_dir + "/validation", confinement_);
}

Task<Unit> Supervisor::make_ready() {
  if (!orders_.start->run.restore_dir.empty()) {
    CO_TRY(orders_.start->run.restore_dir,
           co_await checkpoints_.fetch(orders_.start->run.restore_dir));
  }
  co_return open_worker_port();
}

// Processes that cannot be started now are started with their attempt, which then reports the
// reason.
asio::awaitable<void> Supervisor::stand_by(StartWorkers message) {
  if (workers_ || !orders_.prepare) co_return;
  auto setting_up = set_up(/*stands_by=*/true);
  const auto done = co_await std::move(setting_up);
  if (done.has_error() || orders_.start || group_.phase() != GroupPhase::Prepared) co_return;
  if (workers_ || open_worker_port().has_error()) co_return;
  standbys_.start(executor_, orders_.node_environment(message), message.standby, confinement_);
}

Result<Unit> Supervisor::open_worker_port() {
  if (workers_) return Unit{};
  WorkerPort::Handlers handlers;
  handlers.welcome = [this](const WorkerHello& hello) { return admission_.welcome(hello); };
  handlers.progress_page = [this](Rank rank) {
    std::optional<ProgressMemory>& progress = slots_.at(rank).progress;
    progress.reset();
    // Without memory for a page, its progress is not known, as of a program without the SDK.
    if (auto page = ProgressMemory::make()) progress.emplace(std::move(*page));
    return progress ? progress->fd() : -1;
  };
  handlers.joined = [this](Rank rank, const WorkerHello& hello) {
    slots_.at(rank).connected = true;
    slots_.at(rank).program = static_cast<pid_t>(hello.pid);
    slots_.at(rank).knows_checkpoint_requests = hello.checkpoint_requests;
    slots_.at(rank).knows_memory_profiles = hello.memory_profiles;
    slots_.at(rank).knows_ingest_rosters = hello.ingest_rosters;
    slots_.at(rank).knows_calls = hello.calls;
    if (pause_ && slots_.at(rank).ranks.trains()) {
      if (const auto pause = decode<PauseWorkers>(*pause_))
        pause_passed_on(slots_.at(rank), *pause);
      workers_->send(rank, *pause_);
    }
    if (roster_ && hello.ingest_rosters) workers_->send(rank, *roster_);
    calls_.joined(rank);
    uplink_.say_joined(WorkerJoined{rank.value, hello.build});
  };
  handlers.received = [this](Rank rank, Frame frame) {
    return messages_.received(rank, std::move(frame));
  };
  handlers.closed = [this](Rank rank) {
    slots_.at(rank).connected = false;
    cannot_be_asked(rank, "it has closed its connection");
    memory_profiles_.closed(rank);
    calls_.gone(rank, "it has closed its connection");
    changed_.notify();
  };
  handlers.welcome_ingest = [this](const WorkerHello& hello) { return ingest_.welcome(hello); };
  handlers.received_ingest = [this](const std::string& name, const Frame& frame) {
    return ingest_.received(name, frame);
  };
  TRY(workers_,
      WorkerPort::open(executor_, orders_.worker_socket(), options_.attempt, std::move(handlers)));
  return Unit{};
}

/// The rank's loop has returned, and its process waits for another run.
void Supervisor::on_stay(Rank rank) {
  if (!orders_.start->run.keeps_workers) return;  // then the process waits in vain, as a hung one
  scope_.spawn("stay", runner_.stay(slots_.at(rank)));
  scope_.spawn("drop", drop_later(rank));
}

/// The rank has said goodbye, so it closes its connection. If it does not, do so.
asio::awaitable<void> Supervisor::drop_later(Rank rank) {
  const auto paused = co_await pause_for(kLeavesWithin);
  if (paused && workers_) workers_->drop(rank);
}

void Supervisor::on_ack_reports(const AckReports& message) {
  for (const ReportAck& ack : message.acks) {
    const auto slot = slots_.find(Rank{ack.rank});
    if (slot == slots_.end()) continue;
    slot->second.reports.acknowledge(ack.report_seq);
    if (workers_) workers_->send(slot->first, encode(AckReports{{ack}}, options_.attempt));
  }
}

// Pass the order on to the workers that know it, and answer for the others. A worker that connects
// later was not asked, so the order is not for it.
void Supervisor::on_request_checkpoint(const RequestCheckpoint& message, const Frame& frame) {
  if (message.request < checkpoint_request_.request) return;  // late
  checkpoint_request_ = message;
  for (auto& [rank, slot] : slots_) {
    if (!slot.ranks.trains()) continue;
    if (slot.connected && !slot.said_goodbye && slot.knows_checkpoint_requests)
      workers_->send(rank, frame);
    else if (!slot.connected)
      cannot_be_asked(rank, "it has not called the SDK yet, or has left its loop");
    else if (slot.said_goodbye)
      cannot_be_asked(rank, "it has left its loop");
    else
      cannot_be_asked(rank, "its program was built with an SDK that knows no such request");
  }
}

void Supervisor::on_roster(const TellIngestRoster& message, const Frame& frame) {
  if (message.version <= roster_version_) return;  // late
  roster_version_ = message.version;
  roster_ = frame;
  for (const auto& [rank, slot] : slots_)
    if (slot.connected && slot.knows_ingest_rosters) workers_->send(rank, frame);
}

void Supervisor::cannot_be_asked(Rank rank, const std::string& why) {
  if (checkpoint_request_.step != to_string(CheckpointStep::Ask)) return;
  uplink_.send(
      CheckpointPosition{.rank = rank.value, .request = checkpoint_request_.request, .error = why});
}

// ---- workers

void Supervisor::feed(const GroupEvent& event) {
  for (const GroupAction& action : group_.handle(event, clock_.now())) perform(action);
  changed_.notify();
}

void Supervisor::perform(const GroupAction& action) {
  std::visit(
      Overloaded{
          [&](const SpawnWorker& spawn) {
            scope_.spawn(fmt::format("rank {}", spawn.rank.value),
                         runner_.spawn(slots_.at(spawn.rank)));
          },
          [&](const SignalWorker& signal) {
            runner_.signal(slots_.at(signal.rank), signal.signal);
          },
          [&](const ReapRankLeftovers& reap) { runner_.reap_leftovers(slots_.at(reap.rank)); },
          [&](const TellStarted& started) {
            const auto waited = std::count_if(
                started.pids.begin(), started.pids.end(),
                [this](const auto& worker) { return slots_.at(worker.first).standby.has_value(); });
            uplink_.say(message_of(started, static_cast<std::int32_t>(waited)));
          },
          [&](const TellStartFailed& failed) {
            commands_.end();
            uplink_.say_last(encode(message_of(failed), options_.attempt));
          },
          [&](const TellExited& exited) {
            slots_.at(exited.rank).exit = exited;  // the runner sends it, with the last lines
          },
          [&](const TellGone& gone) {
            ingest_.end();  // nobody here reads any more
            commands_.end();
            scope_.spawn("gone", say_gone(gone.stay));
          },
          [&](const EndThoseThatStay&) {
            standbys_.end();
            changed_.notify();
          },
          [&](const KeepWorkers&) {
            if (std::exchange(finishing_, true)) return;
            begins_anew_ = true;
            unread_.clear();
            scope_.spawn("begin anew", begin_anew());
          },
          [&](const EndSupervisor& end) {
            if (!finishing_) scope_.spawn("finish", finish(end.reason));
            finishing_ = true;
          }},
      action);
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

// Samples are of no use to a launcher that comes later, or that is behind.
asio::awaitable<void> Supervisor::sample_loop() {
  while (!finishing_) {
    const auto woken = co_await pause_for(kSampleEvery);
    if (!woken) co_return;
    const GroupPhase phase = group_.phase();
    if (phase != GroupPhase::Running && phase != GroupPhase::Stopping) continue;
    if (!group_.launcher_present() || !uplink_.connected()) continue;
    if (uplink_.link()->queued_bytes() > kSampleQueueBytesMax) continue;
    for (const WorkerSamples& samples : sampler_.take()) uplink_.send(samples);
    for (const DataSamples& samples : sampler_.take_data()) uplink_.send(samples);
  }
}

asio::awaitable<void> Supervisor::say_gone(bool stay) {
  auto ending_fetch = code_.stop();
  co_await std::move(ending_fetch);
  auto stopping = setup_.stop();
  co_await std::move(stopping);
  auto shutting_down = backends_.shut_down();
  co_await std::move(shutting_down);
  uplink_.say_last(encode(GroupGone{stay}, options_.attempt));
}

asio::awaitable<void> Supervisor::end_all_but_workers() {
  if (uplink_.connected()) (void)co_await within(seconds(1), uplink_.link()->flush());
  if (workers_) co_await workers_->close();
  validations_.kill();
  setup_.kill();
  commands_.end();
  ingest_.end();
  co_await backends_.end_servers();
}

// ---- processes that wait for another run

/// Become a supervisor that knows nothing of this run, and has its workers' processes on standby.
/// They connect to it again.
asio::awaitable<void> Supervisor::begin_anew() {
  auto ending = end_all_but_workers();
  co_await std::move(ending);
  checkpoints_.clean_up();
  if (uplink_.connected()) (void)co_await within(seconds(1), uplink_.link()->flush());
  if (uplink_.connected() && uplink_.link()->queued_bytes() > 0) {  // a frame may have left in part
    auto finishing = finish("not kept");
    co_await std::move(finishing);
  }
  SupervisorOptions again = options_;
  again.link_fd = uplink_.connected() ? uplink_.link()->native_handle() : -1;
  again.socket_fd = socket_fd_.get();
  if (uplink_.connected()) unread_ += uplink_.link()->unread();
  const Error why =
      execute_anew(again, waiting_.to_hand_on(hello(), orders_.prepare->code, unread_));
  print_err("traind supervise: the workers are not kept: {}\n", why.describe());
  auto finishing = finish("not kept");
  co_await std::move(finishing);
}

/// Take over the processes that this supervisor has handed on to itself.
void Supervisor::take_kept() {
  auto unread = waiting_.take(FileDescriptor(options_.kept_fd));
  if (!unread) return print_err("traind supervise: {}\n", unread.error().describe());
  unread_ = std::move(*unread);
  generation_ = waiting_.known().generation;
  if (const auto opened = open_worker_port(); !opened)
    print_err("traind supervise: {}\n", opened.error().describe());
}

asio::awaitable<void> Supervisor::finish(std::string) {
  auto waiting = waiting_.end();
  co_await std::move(waiting);
  auto ending = end_all_but_workers();
  co_await std::move(ending);
  (void)standbys_.close();
  confinement_.end();
  co_await LeftoverReaper::reap_all();
  checkpoints_.clean_up();
  (void)remove_own_folder(options_.spool_dir);
  listener_->close();
  leave_without_unwinding(0);  // every worker is reaped, and every file is closed
}

}  // namespace

// Become the user first of all, but after the exec, so that a process that its user can stop, trace
// or dump contains nothing of traind's memory.
int run_supervisor(const SupervisorOptions& options) {
  if (options.account && ::geteuid() != options.account->uid) become(*options.account);
  return Supervisor(options).run();
}

}  // namespace train
