#include "launcher/cluster/run/run_driver.h"

#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json.hpp>

#include "launcher/cluster/links/controller_messages.h"
#include "launcher/cluster/links/start_messages.h"
#include "launcher/cluster/reports/report_sinks.h"
#include "launcher/cluster/run/detached_run.h"
#include "launcher/cluster/run/run_end.h"
#include "launcher/core/placed_ranks.h"
#include "launcher/core/run_history.h"
#include "launcher/report/summary.h"
#include "launcher/spec/secrets.h"
#include "lib/base/overloaded.h"
#include "lib/base/user_account.h"
#include "lib/net/blocking.h"
#include "lib/net/within.h"
#include "lib/wire/codec.h"
#include "lib/wire/daemon_messages.h"
#include "lib/wire/link_messages.h"

namespace train {
namespace {

constexpr Duration kFlushMin = seconds(30);  // for all waits together; upload_timeout may be longer
constexpr Duration kPrivateDaemonEvery = milliseconds(200);
constexpr int kPrivateDaemonFailuresMax = 3;  // in a row

}  // namespace

RunDriver::RunDriver(const RunOptions& options, std::unique_ptr<RunRecord> record,
                     std::optional<PrivateDaemon> daemon, TlsFiles tls,
                     std::map<std::string, std::string> worker_env,
                     std::vector<NotifyTarget> notify, std::optional<MlflowOptions> mlflow, Log log)
    : options_(options),
      spec_(options.parsed.spec),
      executor_(context_.get_executor()),
      record_(std::move(record)),
      run_(record_->identity()),
      daemon_(std::move(daemon)),
      worker_env_(std::move(worker_env)),
      checkpoints_(spec_.run_config.checkpoint_config, *record_),
      controller_(spec_, checkpoints_.with_unvalidated(record_->start()), clock_.now()),
      log_(std::move(log), [this](NodeId node) { return links_.name(node); }),
      summary_builder_(
          spec_, *record_, clock_,
          [this](std::function<void()> work) { asio::post(disk_, std::move(work)); }, log_),
      screen_(executor_, progress_options(spec_, *record_, options.output, options.color),
              view_options(options.screen, options.output), options.screen, clock_,
              summary_builder_),
      journal_(executor_, record_->journal(), clock_, screen_),
      node_setups_(record_->setup(), record_->folder(), journal_, screen_,
                   [this](std::function<void()> work) { asio::post(disk_, std::move(work)); }),
      links_(executor_, scope_, std::move(tls), *this),
      hold_(executor_, clock_, links_),
      output_(record_->folder(), clock_, links_, screen_, summary_builder_),
      shards_(executor_, scope_, clock_, *record_, spec_.run_config.checkpoint_config.replicas,
              links_, *this, screen_),
      pace_(options.pace > 0),
      downloader_(executor_, clock_, disk_, *record_, shards_.relay(), screen_),
      changed_(executor_),
      flushed_more_(executor_),
      stop_requests_(executor_, record_->folder().path(),
                     [this](const StopAsked& stop) { on_stop_asked(stop); }),
      scope_(executor_),
      shutdown_flush_(executor_, scope_, clock_,
                      std::max(kFlushMin, spec_.run_config.checkpoint_config.upload_timeout),
                      screen_),
      notifier_(std::move(notify), notify_options(), {run_, options.restarted}, summary_builder_,
                clock_, [this] { return pipeline_ ? pipeline_->last_metrics() : Metrics{}; }),
      mlflow_(mlflow
                  ? std::make_unique<MlflowLogger>(std::move(*mlflow), mlflow_run(spec_, run_),
                                                   [this](const std::string& text) { say(text); })
                  : nullptr),
      programs_(executor_, spec_, run_, record_->folder(), worker_env_, screen_),
      news_(journal_, summary_builder_, screen_, notifier_,
            spec_.run_config.checkpoint_config.score_attribute.has_value()),
      validations_(checkpoint_context(), scope_, record_->folder(), controller_, links_, screen_),
      commits_(checkpoint_context(), validations_),
      inspection_(executor_, clock_, links_, disk_, record_->files(), record_->folder(),
                  controller_, scope_, *this),
      samples_(clock_, screen_, record_->folder(),
               [this](const DataBoundWatch::Change& change) { on_data_bound(change); }),
      time_notes_(clock_, disk_, record_->folder(), controller_),
      code_(spec_, record_->folder(), options.restarted) {
  if (!options_.failover.arguments.empty())
    failover_ = std::make_unique<FailoverKeeper>(
        failover_options(options_.failover, spec_.run_config.failure_config, run_,
                         record_->folder(), [this] { return trains_here(); }),
        links_, journal_, screen_, disk_, clock_);
  const std::optional<LivingAttempt>& living = record_->start().living;
  run_.pace = static_cast<std::uint32_t>(options_.pace);
  if (options_.driver_fd >= 0) connect_driver();
  // A living attempt's placement follows the spec that it began with.
  ranks_ = spec_.scaling_config.num_workers.max;
  for (const RoleSpec& role : spec_.scaling_config.other_roles) ranks_ += role.workers;
  if (living) ranks_ = std::max(ranks_, workers_of_all_roles(living->placement));
  if (!living) return;
  (void)pace_.let_go(living->id);
  summary_builder_.placed(living->placement);
  screen_.placed(living->id, living->placement, spec_.scaling_config);
  samples_.placed(living->placement, spec_.scaling_config, living->node_names);
}

bool RunDriver::trains_here() const {
  for (std::int32_t rank = 0; rank < controller_.world_size(); ++rank) {
    const auto node = controller_.node_of(controller_.attempt(), Rank{rank});
    if (node && links_.is_on_our_machine(*node)) return true;
  }
  return false;
}

void RunDriver::connect_driver() {
  DriverPort::Handlers handlers;
  handlers.asked = [this](const DriverCommand& command) {
    switch (command.kind) {
      case DriverCommand::Kind::Stop:
        return feed(StopAsked{StopKind::StopCondition, "its driver asked it to"});
      case DriverCommand::Kind::Call: {
        const auto answer = [this, id = command.id](const CallAnswers& answers) {
          for (std::string& line : called_lines(id, answers, clock_.wall()))
            driver_->send(std::move(line), false);
        };
        if (!command.wrong.empty()) return answer(CallAnswers{.error = command.wrong});
        return inspection_.call(command.call, answer);
      }
      case DriverCommand::Kind::Acknowledge:
        if (command.attempt <= controller_.attempt())
          send_acks(pace_.acknowledged(command.attempt, command.rounds));
        return;
      case DriverCommand::Kind::Release:
        return hold_.let_go(command.patience);
    }
  };
  handlers.gone = [this](const std::string& why) {
    hold_.let_go(kPatience);
    if (finished_) return;
    screen_.warn(fmt::format("the driver is gone: {}", why));
    send_acks(pace_.driver_gone());
    run_.pace = 0;
    const bool leave = options_.outlives_driver || controller_.is_stopping();
    if (!leave) feed(StopAsked{StopKind::Terminate, "its driver is gone"});
  };
  driver_ =
      std::make_unique<DriverPort>(executor_, options_.driver_fd, std::move(handlers), screen_);
  screen_.events().add([this](const std::string& line, bool newest) {
    if (!told_end_) driver_->send(line, newest);
  });
}

EventNotifier::Options RunDriver::notify_options() {
  return {.folder = spec_.working_dir,
          .environment = spec::without_our_own(options_.environment),
          .say = [this](const std::string& text) { say(text); }};
}

void RunDriver::say(const std::string& text) {
  asio::post(context_, [this, text] { screen_.warn(text); });
}

CheckpointContext RunDriver::checkpoint_context() {
  return {executor_, disk_, checkpoints_, news_, *this, clock_};
}

void RunDriver::is_in_slurm(const SlurmAllocation& job, SlurmStep* step) {
  SlurmJob::Handlers handlers{.warn = [this](const std::string& text) { screen_.warn(text); },
                              .stop =
                                  [this](const StopAsked& stop) {
                                    if (!stop_asked_ && !controller_.done()) on_stop_asked(stop);
                                  },
                              .lost = [this](const Error& error) { refused(error); }};
  slurm_ = std::make_unique<SlurmJob>(clock_, job, step, spec_, std::move(handlers));
}

Result<Unit> RunDriver::open_sinks() {
  TRY(auto log, MetricsLog::open(record_->folder().metrics()));
  std::optional<Attempt> adopted;  // if rank 0 has reported in it
  if (const std::optional<LivingAttempt>& living = record_->start().living) {
    for (const HeldReports& held : log.held()) {
      if (Attempt{held.attempt} == living->id)
        feed(RankReported{living->id, Rank{held.rank}, held.last_report_seq});
    }
    if (log.last_report_seq(living->id.value, 0) > 0) adopted = living->id;
  }
  TRY(auto sinks, open_report_sinks(spec_.run_config.callbacks, record_->folder(), clock_.wall(),
                                    options_.parsed.annotated_yaml, adopted, hparams_of(spec_)));
  std::vector<StopRule> rules;
  for (const StopCondition& condition : spec_.run_config.stop)
    rules.push_back({condition.metric, condition.at_least});
  StopRules stop(std::move(rules));
  TRY(auto earlier, earlier_reports(record_->folder().metrics(), record_->start().living, stop,
                                    [this](const ReportRecord& report) {
                                      if (mlflow_) mlflow_->earlier(report);
                                    }));
  if (mlflow_) {
    mlflow_->begin();
    sinks.push_back(mlflow_->sink());
  }
  TRY(const std::uint64_t logged, log.size());
  programs_.open(screen_.events());
  screen_.events().tell([&](Progress& p) {
    return p.run_opened(run_.run_id, record_->folder().path(), logged, screen_.moment());
  });
  commits_.metrics_are(std::move(earlier.with_checkpoint));
  pipeline_ = std::make_unique<ReportPipeline>(
      std::move(log), std::move(sinks), std::move(stop),
      [this](ReportPipeline::News news) {
        asio::post(context_,
                   [this, news = std::move(news)]() mutable { on_report_news(std::move(news)); });
      },
      std::move(earlier.newest),
      record_->start().living ? std::optional(record_->start().living->id) : std::nullopt);
  return Unit{};
}

int RunDriver::run() {
  for (const std::string& warning : options_.parsed.warnings) {
    log_.warning(warning);
    screen_.show([&](Progress& p, Moment at) { return p.warning(warning, at); });
  }
  for (const std::string& warning : record_->warnings()) screen_.warn(warning);
  if (!options_.changed_keys.empty()) {
    boost::json::array keys(options_.changed_keys.begin(), options_.changed_keys.end());
    journal_.remember({{"event", "spec_changed"}, {"keys", std::move(keys)}});
    screen_.warn(fmt::format("the spec was changed, starting with attempt {}: {}",
                             record_->start().first_attempt.value,
                             fmt::join(options_.changed_keys, ", ")));
  }
  summary_builder_.checkpoints_found(checkpoints_);
  if (driver_) driver_->begin(scope_);
  connect();
  scope_.spawn("journal", journal_.run());
  stop_requests_.begin(scope_);
  programs_.begin(record_->start().sets_up, setup());
  inspection_.begin();
  scope_.spawn("deadlines", tick_loop());
  scope_.spawn("samples", samples_.run());
  scope_.spawn("time notes", time_notes_.run());
  if (failover_) scope_.spawn("failover", failover_->run());
  scope_.spawn("screen", screen_.run(links_.size(), [this] { return missing_nodes(); }));
  if (daemon_ && options_.shared_daemon.empty())
    scope_.spawn("private traind", keep_private_daemon());
  if (slurm_) slurm_->begin(scope_);
  // Both files exist before any worker does, for a `resume`; nobody needs to wait for the syncs.
  if (const auto put = record_->put_specs(options_.spec_text, options_.parsed.resolved_yaml); !put)
    screen_.warn(put.error().describe());
  if (RemoteRun* remote = record_->remote())
    remote->begin(
        record_->folder(), record_->generation(),
        [this](const std::string& text) {
          asio::post(context_, [this, text] { screen_.warn(text); });
        },
        [this](const Error& error) { asio::post(context_, [this, error] { refused(error); }); });
  asio::post(disk_, [this] {
    const auto synced = record_->sync_specs();
    if (synced) return;
    asio::post(context_, [this, why = synced.error().describe()] { screen_.warn(why); });
  });
  context_.run();
  return exit_code_;
}

// ---- links

void RunDriver::connect() {
  ClusterConfig cluster = spec_.cluster;
  cluster.nodes = record_->nodes();
  auto diallers = diallers_of(cluster);
  if (diallers.empty()) diallers.push_back(std::make_unique<EndpointDialler>(daemon_->endpoint()));
  DaemonLinkOptions link = link_options(spec_.run_config, run_, options_.build);
  link.owner_key = record_->owner_key();
  if (!daemon_) {
    const auto user = find_account(::geteuid());
    link.attach.submitter = user ? user->name : fmt::format("uid {}", ::geteuid());
  }
  link.has_workers = record_->start().living.has_value();
  links_.connect(std::move(link), std::move(diallers));
  if (!spec_.cluster.finds_nodes()) return;
  discovery_ =
      std::make_unique<NodeDiscovery>(spec_.cluster, record_->nodes(), links_, journal_, screen_);
  scope_.spawn("discovery", discovery_->run());
}

void RunDriver::refused(const Error& error) {
  if (error.code == Errc::Fenced) hold_.superseded();
  summary_builder_.refuse(error);
  if (!finished_)
    scope_.spawn("finish", finish(RunEnded{RunState::Errored, error.message, std::nullopt}));
}

void RunDriver::turned_away(const Error& error) {
  screen_.warn("a node that was found is not used: " + error.describe());
}

void RunDriver::stale(const Error& error) {
  screen_.warn("keeping the previous token or certificates: " + error.describe());
}

asio::awaitable<void> RunDriver::keep_private_daemon() {
  for (;;) {
    const auto woken = co_await pause_for(kPrivateDaemonEvery);
    if (!woken) co_return;
    if ((finished_ && !hold_.holds_any()) || hold_.is_superseded() || !daemon_->ended()) continue;
    if (daemon_->failures() >= kPrivateDaemonFailuresMax) {
      Error why = daemon_->last_error();
      if (why.message.empty())
        why = {Errc::Unavailable, "it exits with an error and does not say why",
               "run `traind --version` with the traind that train-run starts: the one next to it, "
               "or the one that TRAINRUN_TRAIND names"};
      refused({Errc::Unavailable, "the traind of this run cannot start: " + why.message, why.hint});
      if (!daemon_->has_supervisors()) daemon_->clean_up();
      co_return;
    }
    const auto started = daemon_->start();
    if (!started) screen_.warn(started.error().describe());
    if (started)  // it may have another spool
      asio::post(disk_, [daemon = *daemon_, folder = record_->folder()] {
        remember_daemon(daemon, folder);
      });
  }
}

// Handle a frame. Only this function decides what a frame is for. The visit has no default: a
// message without a handler does not compile.
void RunDriver::received(NodeId node, const Frame& frame) {
  auto message = decode_node_message(frame, ranks_);
  if (!message) return log_.warning(links_.name(node) + ": " + message.error().message);
  const Sender from{frame.attempt, node};
  // A node that was lost and comes back may send messages of an attempt that is over.
  const bool is_over = controller_.is_over(from.attempt);
  std::visit(Overloaded{
                 [](const std::monostate&) {},  // of a newer protocol
                 [&](const Prepared& m) {
                   shards_.prepared(from, m);
                   notes_.prepared(links_.name(node), m);
                   feed(to_event(from, m));
                 },
                 [&](ReportBatch& m) {
                   if (is_over) return;  // nobody waits for an acknowledgement
                   const RankReported reported = to_event(from, m);
                   if (m.count > 0) pipeline_->add(from.attempt, std::move(m));
                   feed(reported);
                 },
                 [&](WorkerSamples& m) {
                   const std::int64_t taken_us = m.taken_us;
                   const RanksSampled sampled = to_event(from, std::move(m));
                   if (!is_over) samples_.sampled(links_.name(node), taken_us, sampled);
                   feed(sampled);
                 },
                 [&](const DataSamples& m) {
                   if (!is_over) samples_.data_sampled(from.attempt, m);
                   feed(to_event(from, m));
                 },
                 [&](const NodeDraining& m) {
                   if (finished_) hold_.let_go(kPatience);
                   if (!slurm_ || !slurm_->takes(m)) feed(to_event(from, m));
                 },
                 [&](NodeStatus& m) { on_node_status(links_.name(node), std::move(m)); },
                 [&](const StacksTaken& m) { inspection_.received(from, m); },
                 [&](const ProfileTaken& m) { inspection_.received(from, m); },
                 [&](const WorkerAnswered& m) { inspection_.received(from, m); },
                 [&](const OutputChunk& m) { output_.received(node, from.attempt, m); },
                 [&](const WorkerExited& m) {
                   const RankExited exited = to_event(from, m);
                   summary_builder_.rank_exited(links_.name(node), exited);
                   samples_.ended(exited.attempt, exited.rank);
                   feed(exited);
                 },
                 [&](const WorkerResult& m) {
                   if (!is_over) summary_builder_.result(Rank{m.rank}, m.json);
                 },
                 [&](const GroupGone& m) {
                   if (!shards_.holds_end(from)) feed(to_event(from, m));
                 },
                 [&](const AttemptSnapshot& m) {
                   if (m.kept > 0) hold_.waits(node);
                   shards_.attached(from, m);
                   feed(to_event(from, m));
                 },
                 [&](const AttemptLost& m) {
                   if (from.attempt == controller_.attempt()) hold_.lost(node);
                   shards_.lost(from);
                   feed(to_event(from, m));
                 },
                 [&](const ShardWritten& m) {
                   if (!shards_.takes(from, m)) feed(to_event(from, m));
                 },
                 [&](const ReadFile& m) { shards_.serve(from, m); },
                 [&](FileBytes& m) { shards_.bytes(from, std::move(m)); },
                 [&](const ShardKept& m) { shards_.kept(from, m); },
                 [&](NodeSetupEnded& m) {
                   if (from.attempt.value <= controller_.attempt().value + 1)  // it may stand by
                     node_setups_.ended(from.attempt, links_.name(node), std::move(m));
                 },
                 [&](const FailoverAnswer& m) {
                   if (failover_) failover_->answered(node, m);
                 },
                 [&](ValidationEnded& m) { validations_.ended(from.attempt, std::move(m)); },
                 [&](const AskCheckpoints& m) { validations_.asked(node, from.attempt, m); },
                 [&](const StorageTrouble& m) {
                   screen_.warn(fmt::format("{}: {}", links_.name(node), m.text));
                 },
                 [&](const auto& m) { feed(to_event(from, m)); },  // only for the controller
             },
             *message);
}

// ---- the controller

void RunDriver::feed(const RunEvent& event) {
  shards_.saw(event);
  if (failover_ && !ending_) failover_->saw(event);
  if (finished_) return;
  log_.event(event);
  if (const auto* exited = std::get_if<RankExited>(&event);
      exited != nullptr && exited->rank.value < controller_.world_size())
    send_acks(pace_.let_go(exited->attempt));
  for (const RunAction& action : controller_.handle(event, clock_.now())) {
    log_.action(action);
    perform(action);
  }
  if (!starts_.empty()) scope_.spawn("start workers", start_workers(std::exchange(starts_, {})));
  changed_.notify();
}

void RunDriver::perform(const RunAction& action) {
  std::visit(
      Overloaded{
          [&](const Prepare& prepare) {
            const bool has_workers =
                prepare.placed.local_world_size > 0 || !prepare.placed.others.empty();
            const bool alone = has_workers && controller_.node_count() == 1;
            const NodeId node = prepare.placed.node;
            PrepareAttempt message = prepare_message(
                spec_, run_, prepare, alone ? "127.0.0.1" : links_.address(node), worker_env_);
            message.no_access = shards_.has_no_access(node);
            message.setup =
                node_setup(spec_, run_, node_setups_.done_in(links_.name(node)), worker_env_);
            links_.send(node, encode(message, prepare.attempt));
          },
          [&](const KeepRoom& keep) { links_.send(keep.node, encode(claim_message(spec_, keep))); },
          [&](const Start& start) { starts_.push_back(start); },
          [&](const StandBy& stand_by) {
            links_.send(stand_by.node,
                        encode(standby_message(spec_, run_, stand_by.workers, worker_env_),
                               stand_by.attempt));
          },
          [&](const StopGroup& stop) {
            links_.send(stop.node, encode(message_of(stop), stop.attempt));
          },
          [&](const Pause& pause) {
            links_.send(pause.node, encode(message_of(pause), pause.attempt));
          },
          [&](const OrderCheckpoint& order) {
            links_.send(order.node, encode(message_of(order), order.attempt));
          },
          [&](const CheckpointAnswered& answered) { inspection_.answered(answered); },
          [&](const Release& released) {
            ++releases_;
            scope_.spawn("release", release(released));
          },
          [&](const SendCollective& collective) {
            links_.send(collective.node, collective_frames_.of(collective));
          },
          [&](const TellCheckpoint& tell) {
            links_.send(tell.node,
                        encode(message_of(tell, commits_.keep_on_nodes()), tell.attempt));
          },
          [&](const Commit& commit_action) { scope_.spawn("commit", commit(commit_action)); },
          [&](const GiveUpCommit& give_up) { commits_.give_up(give_up); },
          [&](const Validate& validate) {
            const auto message =
                validation_message(spec_.run_config.checkpoint_config.validation, validate);
            links_.send(validate.node, encode(message, validate.attempt));
          },
          [&](const CollectStacks& collect) { inspection_.collect(collect); },
          [&](const HangFound& hang) { notifier_.hang_found(hang); },
          [&](const Note& note) {
            if (note.level == NoteLevel::Info)
              screen_.phase(note.text);
            else
              screen_.warn(note.text);
          },
          [&](const StragglerChanged& changed) {
            journal_.remember(record_of(changed));
            changed.slow ? screen_.warn(changed.text) : screen_.phase(changed.text);
          },
          [&](const NodeStateChanged& changed) { journal_.remember(record_of(changed)); },
          [&](const KeepIngest& keep) {
            links_.send(keep.node, encode(ingest_message(spec_, keep), keep.attempt));
          },
          [&](const EndIngest& end) {
            links_.send(end.node, encode(message_of(end), end.attempt));
          },
          [&](const SendRoster& send) {
            links_.send(send.node, encode(message_of(send), send.attempt));
          },
          [&](const IngestChanged& changed) {
            journal_.remember(record_of(changed));
            summary_builder_.ingest_changed(changed);
          },
          [&](const StateChanged& changed) { on_state_changed(changed); },
          [&](const AttemptBegun& begun) {
            journal_.remember(record_of(begun));
            summary_builder_.placed(begun.placement);
            screen_.placed(begun.attempt, begun.placement, spec_.scaling_config);
            samples_.placed(begun.placement, spec_.scaling_config, begun.node_names);
          },
          [&](const AttemptEnded& attempt_ended) { on_attempt_ended(attempt_ended); },
          [&](const RunEnded& ended) { scope_.spawn("finish", finish(ended)); }},
      action);
}

void RunDriver::on_state_changed(const StateChanged& change) {
  journal_.remember(record_of(change));
  if (change.to == RunState::Running)
    summary_builder_.attempt_started(change.attempt, controller_.world_size());
  notifier_.state_changed(change);
  if (change.to == RunState::Preparing) {
    if (!first_attempt_) first_attempt_ = change.attempt;
    if (change.attempt != *first_attempt_) return;
  }
  screen_.state_changed(change, controller_);
}

void RunDriver::on_attempt_ended(const AttemptEnded& ended) {
  shards_.attempt_ended(ended.attempt);
  inspection_.attempt_ended(ended.attempt);
  summary_builder_.attempt_ended(ended);
  time_notes_.attempt_ended(ended);
  const std::uint64_t flush = pipeline_->flush();
  journal_.hold_until([this, flush] { return flushed_ >= flush; });
  journal_.remember(record_of(ended, summary_builder_.last_cause()));
  screen_.events().hold_until(flush);
  if (ended.failed)
    screen_.events().put(
        exception_event(summary_builder_.exception_of(ended.attempt), clock_.wall()));
  output_.close(ended.attempt);
  if (slurm_) slurm_->attempt_ended();
}

asio::awaitable<void> RunDriver::tick_loop() {
  for (;;) {
    const auto deadline = controller_.next_deadline();
    if (deadline && clock_.now() >= *deadline) feed(Tick{});
    const auto next = controller_.next_deadline();
    // Look again a little later at a deadline that a tick did not move.
    const TimePoint until =
        next ? std::max(*next, clock_.now() + milliseconds(1)) : TimePoint::max();
    const auto woken = co_await changed_.wait_until(until);
    if (!woken && finished_) co_return;
  }
}

// ---- what the controller asks for

// Start the workers once the journal knows of the attempt, so that no later launcher takes its
// number again.
asio::awaitable<void> RunDriver::start_workers(std::vector<Start> actions) {
  const auto written = co_await journal_.written();
  if (written.has_error()) co_return;
  // Nodes without ranks may follow later.
  if (actions.front().placed.local_world_size > 0) shards_.starting(actions.front());
  StartWorkers message = start_message(spec_, run_, actions.front(), worker_env_);
  for (const Start& action : actions) {
    set_node(message, action);
    links_.send(action.placed.node, encode(message, action.attempt));
    co_await asio::post(executor_, asio::use_awaitable);  // let this leave before making more
  }
  // The handshakes and starts of a large cluster are over, so their memory is no longer needed.
  if (actions.size() > 1000) ::malloc_trim(0);
}

Task<Unit> RunDriver::flushed(std::uint64_t number) {
  while (flushed_ < number) {
    CO_TRY([[maybe_unused]] const bool woken, co_await flushed_more_.wait_until(TimePoint::max()));
  }
  co_return Unit{};
}

asio::awaitable<void> RunDriver::commit(Commit action) {
  const auto reports = co_await flushed(pipeline_->flush());
  if (!reports) co_return;  // then rank 0's metrics of that report are here
  auto committing = commits_.commit(std::move(action), pipeline_->last_metrics());
  co_await std::move(committing);
  if (slurm_) slurm_->checkpoint_ended();
}

asio::awaitable<void> RunDriver::release(Release action) {
  // Acknowledge its last reports and record its end before the supervisor may forget them.
  (void)co_await flushed(pipeline_->flush());
  (void)co_await journal_.written();
  links_.send(action.node, encode(ReleaseAttempt{action.keep_workers}, action.attempt));
  if (action.keep_workers) hold_.keeps(action.node);
  --releases_;
  flushed_more_.notify();
}

Task<Unit> RunDriver::all_released() {
  CO_TRY_VOID(co_await flushed(pipeline_->flush()));
  while (releases_ > 0) {
    CO_TRY([[maybe_unused]] const bool woken, co_await flushed_more_.wait_until(TimePoint::max()));
  }
  co_return Unit{};
}

Task<Unit> RunDriver::disk_is_idle() {
  auto idle = run_on<Unit>(disk_, [] { return Unit{}; });
  co_return co_await std::move(idle);
}

asio::awaitable<void> RunDriver::finish(RunEnded ended) {
  if (std::exchange(ending_, true)) co_return;
  if (slurm_) slurm_->run_ends();
  bool left_on_nodes = false;
  if (spec_.run_config.checkpoint_config.replicas > 0) {
    bool gathered = false;
    if (commits_.hanging() == 0) gathered = co_await downloader_.gather();
    left_on_nodes = !gathered;
  }
  shutdown_flush_.begin();
  if (programs_.set_up_began()) {
    programs_.end_setup();
    const std::function<void()> stopping = [this] { programs_.wait_for_setup(); };
    asio::awaitable<bool> stopped = shutdown_flush_.wait_for_thread(stopping);
    (void)co_await std::move(stopped);
  }
  co_await shutdown_flush_.wait_for(all_released());
  finished_ = true;
  // What lives only on the nodes must outlast this run, and what hangs may still use its record.
  if (left_on_nodes || hold_.has_let_go() || !shutdown_flush_.in_time() || commits_.hanging() > 0)
    ended.workers_stay = false;
  if (ended.workers_stay) ended.workers_stay = co_await hold_.all_wait();
  if (!ended.workers_stay && hold_.holds_any()) co_await hold_.end(controller_.attempt());
  journal_.remember(record_of(ended));
  // Tell nothing to the nodes of a run that continues without us: they may not have another
  // launcher yet.
  const DetachRun how{.keep_data = left_on_nodes,
                      .exit_code = exit_code_of(summary_builder_.summary(ended, {}, {}))};
  if (!summary_builder_.replaced() && !ended.workers_stay) co_await links_.detach(how);
  co_await shutdown_flush_.wait_for(journal_.written());
  if (shutdown_flush_.in_time()) {  // otherwise its thread may hang, too
    pipeline_->finish();
    for (const std::string& warning : pipeline_->end_warnings()) summary_builder_.warn(warning);
  }
  (void)co_await shutdown_flush_.wait_for_thread(samples_.last_write());
  summary_builder_.data_bound(samples_.whole_run());
  const auto summary = std::make_shared<const RunSummary>(summary_builder_.summary(
      ended, pipeline_->last_metrics(), controller_.worker_time(clock_.now())));
  exit_code_ = exit_code_of(*summary);
  if (failover_) failover_->end();
  if (commits_.hanging() == 0) co_await shutdown_flush_.wait_for(disk_is_idle());
  const auto put = std::make_shared<Result<Unit>>(Unit{});
  const std::function<void()> work = [this, summary, put] {
    *put = put_run_end(*record_, *summary, options_.detached);
  };
  asio::awaitable<bool> putting = shutdown_flush_.wait_for_thread(work);
  const bool ended_in_time = co_await std::move(putting);
  if (ended_in_time && put->has_error())
    screen_.warn("the end of the run was not written to its store: " + put->error().describe());
  if (!shutdown_flush_.in_time())
    screen_.warn(fmt::format("the end of this run may not be written: '{}' does not answer",
                             record_->location()));
  notifier_.end(*summary);
  if (mlflow_)
    mlflow_->end_by(clock_.now() + kNotifyEndMax,
                    mlflow_end(*summary, options_.parsed.annotated_yaml));
  const std::function<void()> notifying = [this] {
    notifier_.finish();
    if (mlflow_) mlflow_->wait();
  };
  asio::awaitable<bool> notified = shutdown_flush_.wait_for_thread(notifying);
  (void)co_await std::move(notified);
  (void)co_await shutdown_flush_.wait_for_thread(log_.close());
  screen_.end(*summary);
  told_end_ = true;
  if (programs_.has_callbacks()) {
    const std::function<void()> telling = [this] { programs_.tell_callbacks(); };
    asio::awaitable<bool> told = shutdown_flush_.wait_for_thread(telling);
    (void)co_await std::move(told);
  }
  if (driver_) {
    auto told = within(kDriverEndMax, driver_->sent());
    (void)co_await std::move(told);
  }
  if (ended.workers_stay) {
    if (shutdown_flush_.in_time())
      record_->unlock();  // the run is over
    else
      hold_.let_go(Duration{0});  // a thread that hangs may still use its record
    co_await hold_.hold(controller_.attempt());
    if (!hold_.is_superseded()) co_await links_.detach(how);
  }
  context_.stop();
}

// ---- what arrives

void RunDriver::on_node_status(const std::string& name, NodeStatus status) {
  if (finished_) return;
  for (const std::string& trouble : samples_.node_told(name, std::move(status))) {
    screen_.warn(trouble);
    journal_.remember({{"event", "gpu_trouble"}, {"text", trouble}});
  }
}

void RunDriver::on_data_bound(const DataBoundWatch::Change& change) {
  if (finished_) return;
  screen_.phase(change.text);
  journal_.remember(
      {{"event", change.bound ? "data_bound" : "data_bound_cleared"}, {"text", change.text}});
}

void RunDriver::send_acks(const ReportPace::Acks& due) {
  std::map<std::pair<Attempt, NodeId>, AckReports> acks;
  for (const auto& [attempt, rank, report_seq] : due) {
    if (const auto node = controller_.node_of(attempt, rank))
      acks[{attempt, *node}].acks.push_back({rank.value, report_seq});
  }
  for (const auto& [to, message] : acks) links_.send(to.second, encode(message, to.first));
}

void RunDriver::on_report_news(ReportPipeline::News news) {
  ReportPace::Acks written;
  for (const auto& [attempt, ack] : news.acks)
    written.push_back({attempt, Rank{ack.rank}, ack.report_seq});
  send_acks(pace_.written(written));
  if (news.logged) screen_.events().logged(*news.logged, screen_.moment());
  flushed_ = std::max(flushed_, news.flushed);
  screen_.events().flushed(flushed_);
  journal_.look_again();
  for (ReportRecord& record : news.with_checkpoint) {
    if (slurm_) slurm_->checkpoint_reported();
    commits_.reported(std::move(record));
  }
  for (const std::string& warning : news.warnings) screen_.warn(warning);
  if (!news.shown.empty()) {
    summary_builder_.reported(news.shown.back());
    screen_.show([&](Progress& p, Moment at) { return p.reports(news.shown, at); });
  }
  if (news.stop) feed(StopAsked{StopKind::StopCondition, *news.stop});
  flushed_more_.notify();
}

RunPrograms::Setup RunDriver::setup() {
  RunPrograms::Setup setup{
      .commands = !record_->start().living && !record_->setup().run_done(),
      .succeeded = [this] { on_set_up(); },
      .failed = [this](const SetupFailure& failure) { on_setup_failed(failure); },
      .last_failed = [this](const Error& error) { on_code_failed(error); }};
  if (spec_.ship.on) setup.last = [this](const auto& stopped) { return code_.make(stopped); };
  return setup;
}

void RunDriver::on_set_up() {
  if (ending_) return;
  if (!record_->start().living && !spec_.setup.empty()) journal_.remember(run_setup_record());
  if (const CodeShipment::Made* made = code_.made()) {
    record_->set_code(made->folder);
    run_.code = made->folder;
    for (const std::string& warning : made->warnings) screen_.warn(warning);
    screen_.phase(made->text);
  }
  feed(RunSetUp{});
}

void RunDriver::on_setup_failed(const SetupFailure& failure) {
  if (ending_) return;
  summary_builder_.setup_failed(failure.cause, failure.lines);
  scope_.spawn("finish", finish(RunEnded{RunState::Errored, failure.cause, std::nullopt}));
}

/// The code cannot be shipped. Workers that live go on; a later attempt says what it lacks.
void RunDriver::on_code_failed(const Error& error) {
  if (ending_) return;
  if (!record_->start().living) return refused(error);
  screen_.warn(error.describe());
  feed(RunSetUp{});
}

void RunDriver::on_stop_asked(const StopAsked& stop) {
  if (slurm_ && slurm_->is_repeated(stop)) return;
  hold_.let_go(stop_asked_ ? Duration{0} : kPatience);
  const bool ending = controller_.done();
  if (ending || std::exchange(stop_asked_, true)) shutdown_flush_.escalate();
  downloader_.cancel();
  programs_.stop_setup();
  feed(stop);
}

std::vector<WaitingNode> RunDriver::missing_nodes() const {
  const RunState state = controller_.state();
  if (state != RunState::Scheduling && state != RunState::Attaching) return {};
  return links_.away();
}

}  // namespace train
