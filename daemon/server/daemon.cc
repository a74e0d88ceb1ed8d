#include "daemon/server/daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "daemon/core/launcher_orders.h"
#include "daemon/core/node_agent.h"
#include "daemon/core/private_traind.h"
#include "daemon/core/run_end_watch.h"
#include "daemon/server/control_port.h"
#include "daemon/server/controller_watch.h"
#include "daemon/server/daemon_folders.h"
#include "daemon/server/failover.h"
#include "daemon/server/health_port.h"
#include "daemon/server/launcher_admission.h"
#include "daemon/server/launcher_port.h"
#include "daemon/server/metrics_port.h"
#include "daemon/server/node_reporter.h"
#include "daemon/server/own_node.h"
#include "daemon/server/remote_start.h"
#include "daemon/server/service_status.h"
#include "daemon/server/stdin_leash.h"
#include "daemon/server/supervisor_files.h"
#include "daemon/server/supervisors.h"
#include "daemon/server/worker_spaces.h"
#include "daemon/supervisor/limits/cgroup_release.h"
#include "daemon/supervisor/limits/delegated_cgroup.h"
#include "daemon/supervisor/processes/adopted.h"
#include "daemon/supervisor/processes/spawn.h"
#include "lib/base/host.h"
#include "lib/base/leave.h"
#include "lib/base/network_addresses.h"
#include "lib/base/notify.h"
#include "lib/base/open_files.h"
#include "lib/base/overloaded.h"
#include "lib/base/print.h"
#include "lib/base/write_all.h"
#include "lib/net/handshake.h"
#include "lib/net/listener.h"
#include "lib/net/notifier.h"
#include "lib/net/scope.h"
#include "lib/net/tls_files.h"
#include "lib/net/within.h"
#include "lib/observe/log.h"
#include "lib/storage/own_folder.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"
#include "lib/wire/daemon_messages.h"
#include "lib/wire/link_messages.h"

namespace train {
namespace {

constexpr Duration kDrainStopGrace = seconds(10);    // between TERM and KILL once the grace is over
constexpr Duration kDrainReleaseLimit = seconds(5);  // for launchers to take what workers left
constexpr Duration kSecondTermAfter = seconds(1);

Refused refusal_of(const Error& error) {
  return {std::string(to_string(error.code)), error.message, error.hint};
}

class Daemon {
 public:
  Daemon(const DaemonOptions& options, OwnNode node, TlsFiles tls, Log log, ServiceManager manager)
      : options_(options),
        log_(std::move(log)),
        tls_(std::move(tls)),
        executor_(context_.get_executor()),
        signals_(executor_, SIGTERM, SIGINT, SIGUSR1),
        changed_(executor_),
        host_(host_name()),
        node_name_(options.node_name.empty() ? host_ : options.node_name),
        has_gpus_(!node.gpus.empty()),
        agent_(node_name_, host_, addresses(), node.amounts, node.gpus, std::move(node.traits)),
        spaces_(executor_, {options.spool_dir, data_dir()},
                [log = log_](const std::string& what, const std::string& folder) mutable {
                  log.info(what, {{"folder", folder}});
                }),
        scope_(executor_),
        supervisors_(
            executor_, scope_, {options.runtime_dir, options.spool_dir}, spaces_, log_,
            [this](const AttemptKey& key, const Frame& frame) { return route_up(key, frame); },
            [this](const NodeEvent& event) { feed(event); }),
        admission_(options_.allowed_launchers, spaces_, supervisors_),
        controllers_(
            executor_, scope_, clock_, options.runtime_dir, log_,
            [this](uid_t uid) { return spaces_.account_of(uid); }, [this] { changed_.notify(); }),
        failover_(executor_, scope_, clock_, controllers_, log_),
        reporter_(node.gpus, options.spool_dir),
        status_(std::move(manager), changed_, [this] { return agent_.counts(); }) {
    if (options.end_with_run) run_end_.emplace(options.run_within, clock_.now());
  }

  Result<Unit> open();
  /// Tell the launcher that started us where we are.
  Result<Unit> announce() const;
  /// Serve, and return the exit code.
  int serve() {
    context_.run();
    status_.stopping();
    return exit_code_;
  }

 private:
  // Shared by its reader, and by supervisors that wait for room in its queue.
  using Link = std::shared_ptr<Connection>;

  std::string data_dir() const {
    return options_.data_dir.empty() ? options_.spool_dir + "/data" : options_.data_dir;
  }
  Result<Unit> open_control_port();
  Result<Unit> open_metrics_port();
  Result<Unit> open_health_port();
  void look_at_limits();
  void read_tls_again();
  const std::optional<TlsContext>& current_tls();
  WorkerSpace& space_of_run(const std::string& run_id);
  std::vector<std::string> addresses() const;
  Identity identity() const { return {options_.build, "traind", host_, ::getpid(), node_name_}; }
  asio::awaitable<void> serve_launcher(Link link);
  template <class Message>
  std::optional<Message> decode_order(const Link& link, const Frame& frame);
  bool from_launcher(LinkId id, const Link& link, const Frame& frame, Duration* silence_max);
  void feed(const NodeEvent& event);
  void perform(const NodeAction& action);
  Link route_up(const AttemptKey& key, const Frame& frame);
  asio::awaitable<void> prepare(AttemptAsked event);
  void prepare_failover(LinkId id, const Link& link, PrepareFailover order);
  void spawn_supervisor(const SpawnSupervisor& action);
  void send_status(NodeStatus status);
  asio::awaitable<void> wait_for_signal();
  void begin_drain(Duration grace, const std::string& reason);
  asio::awaitable<void> drain();
  asio::awaitable<void> wait_drained();
  asio::awaitable<void> leave_when_idle();
  asio::awaitable<void> leave_with_run();
  asio::awaitable<void> leave_with_stdin();

  DaemonOptions options_;
  Log log_;
  TlsFiles tls_;
  SystemClock clock_;
  asio::io_context context_;
  asio::any_io_executor executor_;
  asio::signal_set signals_;
  Notifier changed_;
  std::string host_, node_name_;
  const bool has_gpus_;
  NodeAgent agent_;
  WorkerSpaces spaces_;
  std::unique_ptr<LauncherPort> launcher_port_;
  std::unique_ptr<ControlPort> control_;
  std::unique_ptr<MetricsPort> metrics_port_;
  std::unique_ptr<HealthPort> health_port_;
  std::optional<TimePoint> drain_until_;
  LinkId next_link_ = 1;
  std::map<LinkId, Link> launchers_;
  bool had_launcher_ = false;
  std::optional<RunEndWatch> run_end_;
  int exit_code_ = 0;
  Scope scope_;
  Supervisors supervisors_;
  LauncherAdmission admission_;
  ControllerWatch controllers_;
  Failover failover_;
  NodeReporter reporter_;
  ServiceStatus status_;
};

// ---- starting

Result<Unit> Daemon::open() {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  if (!options_.leave_with_last_run) signals_.add(SIGHUP);
  const bool may_run_as_root = options_.allow_root || options_.leave_with_last_run;
  if (::geteuid() == 0 && options_.run_as.empty() && !may_run_as_root)
    return WorkerSpaces::root_refused();
  TRY_VOID(take_folders({options_.runtime_dir, options_.spool_dir, data_dir()}));
  TRY_VOID(spaces_.open(options_.run_as, may_run_as_root));
  if (!options_.leave_with_last_run || options_.of_user)  // others do not share their folder
    TRY_VOID(lock_runtime_folder(options_.runtime_dir));
  TRY_VOID(open_control_port());
  launcher_port_ = std::make_unique<LauncherPort>(
      executor_, scope_, log_, identity(), [this]() -> decltype(auto) { return current_tls(); },
      [this](Link link) { return serve_launcher(std::move(link)); });
  for (const std::string& text : options_.listen) TRY_VOID(launcher_port_->listen(text));
  TRY_VOID(open_metrics_port());
  TRY_VOID(open_health_port());
  look_at_limits();
  std::set<uid_t> living;
  for (const auto& files : list_supervisor_files(options_.runtime_dir, options_.spool_dir))
    living.insert(files.uid);
  spaces_.remove_old_leftovers(living);
  supervisors_.adopt_all();
  controllers_.resume_all();
  had_launcher_ = !controllers_.empty();
  scope_.spawn("signals", wait_for_signal());
  scope_.spawn("adopted", reap_adopted(executor_));
  scope_.spawn("service manager", status_.run());
  scope_.spawn("node status", reporter_.run([this] { return !launchers_.empty(); },
                                            [this](NodeStatus status) { send_status(status); }));
  if (options_.leave_with_stdin && !options_.leave_with_last_run)
    scope_.spawn("stdin", leave_with_stdin());
  if (options_.leave_with_last_run) scope_.spawn("leave when idle", leave_when_idle());
  if (run_end_) scope_.spawn("leave with run", leave_with_run());
  return Unit{};
}

Result<Unit> Daemon::announce() const {
  return write_all(STDOUT_FILENO, announcement(node_name_, launcher_port_->endpoint()), "stdout");
}

WorkerSpace& Daemon::space_of_run(const std::string& run_id) {
  return spaces_.of_user(agent_.user_of(run_id));
}

// Probing makes some cgroups, so a private traind leaves it to its run, which reports what is
// missing.
void Daemon::look_at_limits() {
  const CgroupTakeover taken = take_over_own_cgroup(own_cgroup_locations());
  if (options_.leave_with_last_run) return;
  if (const auto noted = note_own_cgroup(options_.runtime_dir, taken.moved_out_of); !noted)
    log_.warn("traind cgroup release will do nothing", {{"why", noted.error().describe()}});
  const std::vector<std::string> missing = missing_limits();
  if (missing.empty()) return;
  log_.warn("cannot enforce all resource limits of workers",
            {{"without", fmt::format("{}", fmt::join(missing, ", "))},
             {"why", taken.failure.empty() ? "no cgroup is writable" : taken.failure}});
}

// Existing connections keep the credentials that they began with.
void Daemon::read_tls_again() {
  if (const auto read = tls_.read_again(); !read)
    return log_.error("keeping the previous token or certificates",
                      {{"why", read.error().describe()}});
  log_.info("the token or certificates were read again",
            {{"name", tls_.name()}, {"valid_until", tls_.valid_until()}});
}

// Look for changed files, because not everyone who renews certificates can send a signal:
// Kubernetes only changes the files.
const std::optional<TlsContext>& Daemon::current_tls() {
  if (tls_.changed(clock_.now())) read_tls_again();
  return tls_.context();
}

Result<Unit> Daemon::open_control_port() {
  ControlPort::Handlers handlers;
  handlers.drain = [this](const DrainNode& message) {
    begin_drain(milliseconds(std::clamp<std::int64_t>(message.grace_ms, 0, kDrainGraceMsMax)),
                message.reason);
  };
  handlers.detach = [this](DetachController message, Link asker) {
    had_launcher_ = true;
    controllers_.detach(std::move(message), std::move(asker));
  };
  TRY(control_, ControlPort::open(executor_, scope_, options_.runtime_dir, identity(), handlers));
  return Unit{};
}

Result<Unit> Daemon::open_metrics_port() {
  if (options_.metrics_listen.empty()) return Unit{};
  auto opened = MetricsPort::open(executor_, scope_, options_.metrics_listen,
                                  {.name = node_name_,
                                   .build = options_.build,
                                   .spool_dir = options_.spool_dir,
                                   .data_dir = data_dir(),
                                   .counts = [this] { return agent_.counts(); }});
  if (opened.has_error()) return std::move(opened).error().with_context("--metrics-listen");
  metrics_port_ = std::move(*opened);
  log_.info("metrics", {{"listen", metrics_port_->local_endpoint().text()}});
  return Unit{};
}

Result<Unit> Daemon::open_health_port() {
  if (options_.health.empty()) return Unit{};
  auto opened =
      HealthPort::open(executor_, scope_, options_.health, [this] { return agent_.counts(); });
  if (opened.has_error()) return std::move(opened).error().with_context("--health");
  health_port_ = std::move(*opened);
  log_.info("health", {{"listen", health_port_->local_endpoint().text()}});
  return Unit{};
}

// Return the addresses to tell launchers. A specific listen address comes first: it is the best one
// for other nodes, too.
std::vector<std::string> Daemon::addresses() const {
  std::vector<std::string> all;
  for (const std::string& text : options_.listen) {
    if (const auto endpoint = parse_endpoint(text);
        endpoint && endpoint->kind == Endpoint::Tcp && !endpoint->host_or_path.empty() &&
        endpoint->host_or_path != "0.0.0.0" && endpoint->host_or_path != "::") {
      all.push_back(endpoint->host_or_path);
    }
  }
  for (std::string& address : read_node_addresses()) {
    if (std::find(all.begin(), all.end(), address) == all.end()) all.push_back(std::move(address));
  }
  return all;
}

// ---- launchers

asio::awaitable<void> Daemon::serve_launcher(Link link) {
  const LinkId id = next_link_++;
  launchers_[id] = link;
  Duration silence_max = seconds(10);  // until AttachRun sets it
  std::string why = "it detached";
  for (;;) {
    auto frame = co_await within(silence_max, link->receive());
    if (!frame) {
      why = frame.error().describe();
      break;
    }
    if (link->queued_bytes() > kUnreadBytesMax) {
      why = "it sends requests but does not read the answers";
      break;
    }
    if (!from_launcher(id, link, *frame, &silence_max)) break;
    if (const auto run = agent_.run_of(id); run && !supervisors_.keep_up(*run)) {
      why = "its supervisor does not read what it sends";
      break;
    }
  }
  const auto run = agent_.run_of(id);
  feed(LauncherLinkClosed{id});
  launchers_.erase(id);
  if (run) failover_.left(*run);
  if (run_end_) run_end_->closed(id, clock_.now());
  log_.info("launcher left", {{"peer", link->peer()}, {"why", why}});
  (void)co_await within(seconds(1), link->flush());
  link->close();
  changed_.notify();
}

/// Decode and check an order. For an order that makes no sense, tell the launcher and return none,
/// which ends the link.
template <class Message>
std::optional<Message> Daemon::decode_order(const Link& link, const Frame& frame) {
  auto message = decode<Message>(frame);
  const Result<Unit> checked = message ? check_order(*message) : message.error();
  if (checked) return std::move(*message);
  link->send(encode(refusal_of(checked.error())));
  return std::nullopt;
}

bool Daemon::from_launcher(LinkId id, const Link& link, const Frame& frame, Duration* silence_max) {
  if (frame.type == MessageType::ReadFile && frame.attempt == kNoAttempt) {
    const auto request = decode<ReadFile>(frame);
    if (const auto run = agent_.run_of(id); run && request)
      space_of_run(*run).data.serve(*run, *request, [link](const FileBytes& answer) {
        link->send(encode(answer));
        if (link->queued_bytes() > kUnreadBytesMax) link->close();
      });
    return true;
  }
  if (is_relayed(frame.type)) {
    const auto run = agent_.run_of(id);
    if (!run) return true;
    const Link supervisor = supervisors_.link({*run, frame.attempt});
    if (!supervisor) return true;
    supervisor->send(frame);
    return true;
  }
  switch (frame.type) {
    case MessageType::Heartbeat:
      if (auto beat = decode<Heartbeat>(frame)) link->send(encode(HeartbeatAck{beat->sequence}));
      return true;
    case MessageType::AttachRun: {
      auto message = decode_order<AttachRun>(link, frame);
      if (!message) return false;
      if (const auto run = agent_.run_of(id); run && *run != message->run_id) return false;
      const auto certificate = link->certificate_name();
      const std::string user = certificate ? certificate->name : "";
      const auto worker = admission_.admit(*link, *message);
      if (!worker) {
        log_.warn("refused a launcher", {{"peer", link->peer()},
                                         {"user", user},
                                         {"run", message->run_name},
                                         {"why", worker.error().message}});
        link->send(encode(refusal_of(worker.error())));
        return false;
      }
      message->user = *worker;
      if (certificate) message->submitter = certificate->name;
      *silence_max = milliseconds(message->dead_after_ms);
      had_launcher_ = true;
      log_.info("launcher attached",
                {{"run", message->run_name},
                 {"generation", static_cast<std::int64_t>(message->generation)},
                 {"user", user},
                 {"workers_as", message->user}});
      if (const std::string soon = tls_.soon_over(std::time(nullptr)); !soon.empty())
        log_.warn(soon);
      if (run_end_ && message->generation > 0)  // not `train-run nodes`
        run_end_->attached(id, message->run_name, milliseconds(message->orphan_timeout_ms));
      spaces_.of_user(message->user).data.run_began(message->run_id);
      const std::string run_id = message->run_id;
      const std::uint64_t generation = message->generation;
      feed(LauncherAttached{id, std::move(*message)});
      if (agent_.run_of(id) == run_id) failover_.attached(run_id, generation);
      return true;
    }
    case MessageType::PrepareAttempt: {
      auto message = decode_order<PrepareAttempt>(link, frame);
      if (!message) return false;
      AttemptAsked asked{id, frame.attempt, std::move(*message)};
      if (has_gpus_ && asked.message.per_worker.gpu > 0)
        scope_.spawn("prepare", prepare(std::move(asked)));
      else
        feed(asked);
      return true;
    }
    case MessageType::ClaimRoom: {
      auto message = decode_order<ClaimRoom>(link, frame);
      if (!message) return false;
      feed(RoomClaimed{id, std::move(*message)});
      return true;
    }
    case MessageType::DetachRun:
      if (const auto detach = decode<DetachRun>(frame)) {
        const auto run = agent_.run_of(id);
        if (run) failover_.cancel(*run);
        if (run && !detach->keep_data) space_of_run(*run).data.run_ended(*run);
        if (run_end_ && detach->exit_code >= 0) run_end_->ended(id, detach->exit_code);
      }
      feed(LauncherDetached{id});
      return false;
    case MessageType::PrepareFailover: {
      auto message = decode_order<PrepareFailover>(link, frame);
      if (!message) return false;
      prepare_failover(id, link, std::move(*message));
      return true;
    }
    case MessageType::CancelFailover:
      if (const auto run = agent_.run_of(id)) failover_.cancel(*run);
      return true;
    case MessageType::AskLauncher:
      if (const auto asked = decode<AskLauncher>(frame))
        link->send(encode(LauncherTold{agent_.link_of(asked->run_id).has_value()}));
      return true;
    default:
      return true;
  }
}

/// Stand ready to take the run over. A traind that ends with its launcher cannot.
void Daemon::prepare_failover(LinkId id, const Link& link, PrepareFailover order) {
  const auto run = agent_.run_of(id);
  if (!run) return;
  if (options_.leave_with_last_run || options_.announce || options_.leave_with_stdin || run_end_) {
    link->send(encode(FailoverAnswer{false, "its traind ends with the launcher"}));
    return;
  }
  failover_.prepare(*run, agent_.generation_of(*run), std::move(order), space_of_run(*run).account,
                    [link](const FailoverAnswer& answer) { link->send(encode(answer)); });
}

/// Let the node decide, once it is known who uses its GPUs.
asio::awaitable<void> Daemon::prepare(AttemptAsked event) {
  co_await reporter_.gpus_asked();
  event.gpus_in_use = reporter_.gpus_in_use();
  feed(event);
}

void Daemon::feed(const NodeEvent& event) {
  for (const NodeAction& action : agent_.handle(event)) perform(action);
  spaces_.remove_leftovers(supervisors_.living_runs());
  changed_.notify();
}

Supervisors::Link Daemon::route_up(const AttemptKey& key, const Frame& frame) {
  bool stay = false;
  if (frame.type == MessageType::GroupGone)
    if (const auto gone = decode<GroupGone>(frame)) stay = gone->stay;
  const auto id = agent_.route_up(key, frame.type, stay);
  const auto launcher = id ? launchers_.find(*id) : launchers_.end();
  return launcher == launchers_.end() ? nullptr : launcher->second;
}

void Daemon::spawn_supervisor(const SpawnSupervisor& action) {
  const auto spawned = supervisors_.spawn(action, space_of_run(action.key.run_id));
  if (spawned) return;
  const Error& error = spawned.error();
  log_.error("no supervisor", {{"why", error.describe()}});
  if (const auto launcher = launchers_.find(action.link); launcher != launchers_.end())
    launcher->second->send(
        encode(StartFailed{0, std::string(to_string(error.code)), error.message, error.hint, false},
               action.key.attempt));
  feed(SupervisorDown{action.key, error.message});
}

void Daemon::send_status(NodeStatus status) {
  for (const auto& [id, link] : launchers_) {
    const auto run = agent_.run_of(id);
    if (!run || link->queued_bytes() > kNodeStatusQueueBytesMax) continue;
    status.granted = agent_.gpus_of(*run);
    link->send(encode(status));
  }
}

void Daemon::perform(const NodeAction& action) {
  const auto send = [this](LinkId id, const Frame& frame) {
    if (const auto link = launchers_.find(id); link != launchers_.end()) link->second->send(frame);
  };
  std::visit(
      Overloaded{
          [&](const RefuseLink& refuse) { send(refuse.link, encode(refusal_of(refuse.error))); },
          [&](const DropLink& drop) {
            send(drop.link,
                 encode(Refused{"fenced", "another train-run has taken this run over", ""}));
          },
          [&](const SendOffer& offer) { send(offer.link, encode(offer.offer)); },
          [&](const SpawnSupervisor& spawn) { spawn_supervisor(spawn); },
          [&](const SendPrepare& prepare) { supervisors_.prepare(prepare.key, prepare.message); },
          [&](const RefuseAttempt& refused) {
            send(refused.link,
                 encode(StartFailed{0, std::string(to_string(refused.error.code)),
                                    refused.error.message, refused.error.hint, refused.busy},
                        refused.attempt));
          },
          [&](const TellSupervisor& tell) {
            if (const Link link = supervisors_.link(tell.key))
              link->send(encode(tell.state, tell.key.attempt));
          },
          [&](const TellAttemptLost& lost) {
            send(lost.link, encode(AttemptLost{lost.reason, lost.standby}, lost.attempt));
          },
          [&](const ReapAttemptLeftovers& reap) { supervisors_.reap_leftovers(reap.key); },
          [&](const TellDraining& draining) {
            const Duration left =
                std::max(Duration{0}, drain_until_.value_or(clock_.now()) - clock_.now());
            send(draining.link,
                 encode(NodeDraining{std::chrono::duration_cast<milliseconds>(left).count(),
                                     draining.reason}));
          },
          [&](const StopAttempt& stop) {
            if (const Link link = supervisors_.link(stop.key)) {
              const Duration grace = stop.at_once ? Duration{0} : kDrainStopGrace;
              link->send(encode(
                  StopWorkers{std::chrono::duration_cast<milliseconds>(grace).count(), stop.reason},
                  stop.key.attempt));
            }
          }},
      action);
}

// ---- the end

asio::awaitable<void> Daemon::wait_for_signal() {
  std::optional<TimePoint> asked;
  for (;;) {
    const auto [error, number] = co_await signals_.async_wait(asio::as_tuple(asio::use_awaitable));
    if (error) co_return;
    if (number == SIGHUP) {
      read_tls_again();
      continue;
    }
    if (number == SIGUSR1) {  // Slurm's early warning: no hurry yet
      if (!options_.leave_with_last_run) begin_drain(options_.drain_grace, "SIGUSR1");
      continue;
    }
    // Slurm sends TERM twice, some ms apart: only a later TERM is urgent.
    const bool again = asked && clock_.now() >= *asked + kSecondTermAfter;
    const bool at_once = number == SIGINT && !options_.announce && !run_end_;
    if (again && run_end_) {  // nobody looks for its workers
      begin_drain(Duration{0}, "another signal");
      continue;
    }
    const bool leave = at_once || again || options_.leave_with_last_run;
    if (leave) {
      log_.info("exiting; workers keep running", {{"signal", number}});
      context_.stop();
      co_return;
    }
    if (asked) continue;
    asked = clock_.now();
    begin_drain(options_.drain_grace, number == SIGINT ? "SIGINT" : "SIGTERM");
  }
}

// Exit at the end of stdin. Workers keep running, as during an upgrade: the next traind finds them
// again. But nobody looks for those of a traind that was started for one launcher: stop them.
asio::awaitable<void> Daemon::leave_with_stdin() {
  const auto ended = co_await wait_for_end_of_stdin(executor_);
  if (ended.has_error() && ended.error().code == Errc::Cancelled) co_return;
  if (options_.announce || run_end_)
    co_return begin_drain(Duration{0}, "its standard input was closed");
  log_.info("exiting; workers keep running",
            {{"why", ended.has_error() ? ended.error().describe() : "stdin was closed"}});
  context_.stop();
}

// Begin to drain. If asked again, the earlier deadline counts.
void Daemon::begin_drain(Duration grace, const std::string& reason) {
  const bool first = !drain_until_;
  const TimePoint until = clock_.now() + grace;
  drain_until_ = first ? until : std::min(*drain_until_, until);
  log_.info("draining", {{"why", reason}, {"grace", format_duration(grace)}});
  feed(DrainAsked{reason});
  if (first) scope_.spawn("drain", drain());
}

asio::awaitable<void> Daemon::wait_drained() {
  while (!agent_.drained() && clock_.now() < *drain_until_) {
    auto woken = co_await changed_.wait_until(*drain_until_);
    if (!woken && woken.error().code == Errc::Cancelled) co_return;
  }
}

asio::awaitable<void> Daemon::drain() {
  co_await wait_drained();
  for (const Duration more : {kDrainStopGrace + kDrainReleaseLimit, kDrainReleaseLimit}) {
    if (agent_.drained()) break;
    log_.warn("the drain grace period is over: stopping the remaining workers", {});
    drain_until_ = clock_.now() + more;
    feed(DrainExpired{});
    co_await wait_drained();
  }
  log_.info("leaving", {{"drained", agent_.drained()}});
  if (run_end_) exit_code_ = run_end_->code_after_drain();
  const std::map<LinkId, Link> launchers = launchers_;  // copied: some may leave meanwhile
  for (const auto& [id, link] : launchers) (void)co_await within(seconds(1), link->flush());
  context_.stop();
}

asio::awaitable<void> Daemon::leave_with_run() {
  std::optional<RunEndWatch::End> end;
  for (;;) {
    end = run_end_->advance(agent_.idle(), clock_.now());
    if (end) break;
    auto woken = co_await changed_.wait_until(run_end_->next_deadline());
    if (!woken && woken.error().code == Errc::Cancelled) co_return;
  }
  if (!end->problem.empty()) print_error("traind", {Errc::Unavailable, end->problem});
  log_.info("leaving: the run has ended", {{"exit_code", end->exit_code}});
  exit_code_ = end->exit_code;
  context_.stop();
}

asio::awaitable<void> Daemon::leave_when_idle() {
  const TimePoint started = clock_.now();
  if (options_.leave_with_stdin) {  // a sweep holds it: it stays between runs until that has ended
    const auto ended = co_await wait_for_end_of_stdin(executor_);
    if (ended.has_error() && ended.error().code == Errc::Cancelled) co_return;
    had_launcher_ = true;  // nobody else will call
  }
  for (;;) {
    const TimePoint now = clock_.now();
    const bool waited = waited_for_launchers(started, had_launcher_, now);
    if (waited && launchers_.empty() && agent_.idle() && controllers_.empty()) break;
    auto woken = co_await changed_.wait_until(look_again_at(started, had_launcher_, now));
    if (!woken) co_return;
  }
  launcher_port_->close();
  // Both folders were made for this traind alone.
  for (const std::string& folder : {options_.spool_dir, options_.runtime_dir}) {
    if (const auto removed = remove_own_folder(folder); !removed)
      log_.warn("not removed", {{"why", removed.error().describe()}});
  }
  context_.stop();
}

}  // namespace

namespace {

/// Return the node's name: that of its certificate, if it has one. Error if the options name
/// another.
Result<std::string> name_of_node(const DaemonOptions& options, const TlsFiles& tls) {
  if (!tls.context() || !tls.context()->name()) return options.node_name;
  const std::string& name = tls.context()->name()->name;
  if (options.node_name.empty() || options.node_name == name) return name;
  return Error{
      Errc::InvalidArgument,
      fmt::format("this node is called {}, but its certificate is for {}", options.node_name, name),
      "leave --node-name out, or make a certificate for it: traind certs node " +
          options.node_name};
}

}  // namespace

std::string default_spool_dir() { return fmt::format("/var/tmp/trainrun-{}", ::geteuid()); }

namespace {

/// Fill in what a traind that a launcher starts finds out by itself, unless the options say it.
Result<Unit> complete_remote(DaemonOptions& options) {
  if (!options.announce) return Unit{};
  if (options.listen.empty()) {
    TRY(std::string towards, listen_towards_launcher());
    options.listen.push_back(std::move(towards));
  }
  const char* node = std::getenv("SLURMD_NODENAME");  // as Slurm calls it
  if (options.node_name.empty() && node != nullptr) options.node_name = node;
  if (!options.runtime_dir.empty()) return Unit{};
  TRY(const PrivateFolders folders, make_remote_folders());
  options.runtime_dir = folders.runtime;
  options.spool_dir = folders.spool;
  options.removes_folders = true;
  return Unit{};
}

Result<TlsFiles> read_tls(const DaemonOptions& options) {
  if (!options.token_stdin)
    return TlsFiles::read({options.token_file, options.tls_folder}, CertificateRole::Node);
  TRY(const Token token, read_token_line(STDIN_FILENO, kTokenLimit));
  return TlsFiles::of_token(token, CertificateRole::Node);
}

}  // namespace

int run_daemon(DaemonOptions options) {
  ::signal(SIGPIPE, SIG_IGN);
  if (options.leave_with_last_run) ::signal(SIGHUP, SIG_IGN);
  raise_open_files();
  ask_to_be_spared(-900);
  keep_in_memory();
  const auto fail = [](const Error& error, int code) {
    print_error("traind", error);
    return code;
  };
  auto level = parse_log_level(options.log_level);
  if (!level) return fail(level.error(), 64);
  auto tls = read_tls(options);
  if (!tls) return fail(tls.error(), 78);
  auto name = name_of_node(options, *tls);
  if (!name) return fail(name.error(), 78);
  options.node_name = *std::move(name);
  if (const auto completed = complete_remote(options); !completed)
    return fail(completed.error(), 78);
  auto node = read_own_node(options);
  if (!node) return fail(node.error(), 64);
  auto log =
      Log::open({.level = *level}, {.component = "traind", .run = "", .node = options.node_name});
  if (!log) return fail(log.error(), 74);
  // The service manager, if any, knows nothing of a private traind.
  Daemon daemon(
      options, std::move(*node), std::move(*tls), *log,
      options.leave_with_last_run ? ServiceManager() : ServiceManager::take_from_environment());
  int code = 0;
  if (const auto opened = daemon.open(); !opened)
    code = fail(opened.error(), opened.error().code == Errc::Unavailable ? 69 : 78);
  else if (const Result<Unit> told =
               options.announce || options.end_with_run ? daemon.announce() : Unit{};
           !told)
    code = fail(told.error(), 74);
  else
    code = daemon.serve();
  if (options.removes_folders)
    for (const std::string& folder : {options.spool_dir, options.runtime_dir})
      (void)remove_own_folder(folder);
  leave_without_unwinding(code);
}

}  // namespace train
