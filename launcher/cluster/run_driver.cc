#include "launcher/cluster/run_driver.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json.hpp>
#include <filesystem>

#include "launcher/cluster/checkpoint_keeper.h"
#include "launcher/cluster/daemon_link.h"
#include "launcher/cluster/node_address.h"
#include "launcher/cluster/output_log.h"
#include "launcher/cluster/private_daemon.h"
#include "launcher/cluster/report_pipeline.h"
#include "launcher/cluster/run_ledger.h"
#include "launcher/cluster/run_record.h"
#include "launcher/cluster/start_frames.h"
#include "launcher/core/run_controller.h"
#include "launcher/report/output_lines.h"
#include "launcher/report/summary.h"
#include "lib/net/notifier.h"
#include "lib/net/scope.h"
#include "lib/net/within.h"
#include "lib/observe/progress_csv.h"
#include "lib/observe/tensorboard.h"
#include "lib/wire/codec.h"

namespace train {
namespace {

constexpr std::uint64_t kOutputBytesMax = 1u << 30;  // of the run's copy, a rank and stream
constexpr Duration kStopFileEvery = milliseconds(500);
constexpr Duration kPrivateDaemonEvery = milliseconds(200);
constexpr std::string_view kDaemonNote =
    ".daemon";  // in the run's folder: where its private traind is

class RunDriver {
 public:
  RunDriver(const RunOptions& options, std::unique_ptr<RunRecord> record,
            std::optional<PrivateDaemon> daemon, std::optional<Token> token,
            std::map<std::string, std::string> worker_env);

  Result<Unit> open_sinks();
  int run();

 private:
  // links
  void connect();
  void add_link(NodeId id, const Endpoint& endpoint);
  void received(NodeId node, const Frame& frame);
  void send(NodeId node, const Frame& frame);
  asio::awaitable<void> keep_private_daemon();

  // the controller
  void feed(const RunEvent& event);
  void perform(const RunAction& action);
  void on_state_changed(const StateChanged& change);
  void on_attempt_ended(const AttemptEnded& ended);
  asio::awaitable<void> tick_loop();

  // what it asks for
  asio::awaitable<void> start_workers(Start action);
  asio::awaitable<void> commit(Commit action);
  asio::awaitable<void> release(Release action);
  asio::awaitable<void> finish(RunEnded ended);
  Task<Unit> settled(std::uint64_t number);

  // what comes in
  void on_output(NodeId node, Attempt attempt, const OutputChunk& chunk);
  void on_report_news(ReportPipeline::News news);
  asio::awaitable<void> write_journal();
  asio::awaitable<void> handle_signals();
  asio::awaitable<void> watch_stop_file();
  asio::awaitable<void> redraw_loop();

  void remember(boost::json::object event);
  void show(const std::string& text);
  Moment moment() const { return {clock_.now(), clock_.wall()}; }
  std::string node_name(NodeId node) const;

  const RunOptions& options_;
  const JobSpec& spec_;
  SystemClock clock_;
  asio::io_context context_;
  asio::any_io_executor executor_;
  std::unique_ptr<RunRecord> record_;
  std::optional<PrivateDaemon> daemon_;
  std::optional<Token> token_;
  std::map<std::string, std::string> worker_env_;
  RunController controller_;
  RunLedger ledger_;         // for the summary
  CheckpointKeeper keeper_;  // on the disk thread, once commits begin
  Progress progress_;
  OutputLines output_lines_;
  OutputLog output_log_;
  std::unique_ptr<ReportPipeline> pipeline_;
  std::vector<std::unique_ptr<DaemonLink>> links_;  // by NodeId
  std::map<NodeId, NodeOffer> offers_;
  std::map<NodeId, std::string> addresses_;  // for the workers of other nodes
  bool on_this_machine_ = true;              // every daemon is reached over loopback
  std::map<NodeId, std::string> problems_;   // of daemons that do not answer
  std::map<std::pair<Attempt, std::uint64_t>, Metrics>
      checkpoint_metrics_;        // rank 0's, by report ordinal
  std::optional<Attempt> ended_;  // the newest attempt that is over
  std::vector<boost::json::object> journal_queue_;
  std::uint64_t journal_asked_ = 0, journal_written_ = 0, settled_ = 0;
  int releases_ = 0, interrupts_ = 0;
  int exit_code_ = 70;
  bool finished_ = false;
  asio::thread_pool disk_{1};  // commits
  asio::thread_pool journal_disk_{1};
  Notifier changed_;
  Scope scope_;
};

ProgressOptions progress_options(const RunOptions& options, const RunRecord& record) {
  ProgressOptions progress{.mode = options.output,
                           .color = options.color,
                           .run = record.name(),
                           .path = record.folder().path(),
                           .metrics = {}};
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    progress.columns = size.ws_col;
  const RunConfig& run = options.parsed.spec.run_config;
  for (const StopCondition& stop : run.stop) progress.metrics.push_back(stop.metric);
  if (run.checkpoint_config.score_attribute)
    progress.metrics.push_back(*run.checkpoint_config.score_attribute);
  return progress;
}

RunDriver::RunDriver(const RunOptions& options, std::unique_ptr<RunRecord> record,
                     std::optional<PrivateDaemon> daemon, std::optional<Token> token,
                     std::map<std::string, std::string> worker_env)
    : options_(options),
      spec_(options.parsed.spec),
      executor_(context_.get_executor()),
      record_(std::move(record)),
      daemon_(std::move(daemon)),
      token_(std::move(token)),
      worker_env_(std::move(worker_env)),
      controller_(spec_, record_->start(), clock_.now()),
      ledger_(spec_, *record_, clock_),
      keeper_(spec_.run_config.checkpoint_config, *record_),
      progress_(progress_options(options, *record_), moment()),
      output_lines_(::isatty(STDOUT_FILENO) != 0),
      output_log_(record_->folder(), kOutputBytesMax),
      changed_(executor_),
      scope_(executor_) {}

Result<Unit> RunDriver::open_sinks() {
  TRY(auto log, MetricsLog::open(record_->folder().metrics()));
  std::vector<std::unique_ptr<ReportSink>> sinks;
  for (const std::string& name : spec_.run_config.callbacks) {
    if (name == "csv") {
      TRY(auto csv, ProgressCsv::open(record_->folder().progress_csv()));
      sinks.push_back(std::make_unique<ProgressCsv>(std::move(csv)));
    } else if (name == "tensorboard") {
      const std::int64_t now_us =
          std::chrono::duration_cast<std::chrono::microseconds>(clock_.wall().time_since_epoch())
              .count();
      char host[256] = {};
      ::gethostname(host, sizeof host - 1);
      TRY(auto events,
          TensorboardFile::open(
              {.folder = record_->folder().tensorboard(), .hostname = host, .wall_us = now_us}));
      events.write_text("spec", "```yaml\n" + options_.parsed.annotated_yaml + "\n```", now_us);
      sinks.push_back(std::make_unique<TensorboardFile>(std::move(events)));
    }
  }
  std::vector<StopRule> rules;
  for (const StopCondition& stop : spec_.run_config.stop)
    rules.push_back({stop.metric, stop.at_least});
  pipeline_ = std::make_unique<ReportPipeline>(
      std::move(log), std::move(sinks), StopRules(std::move(rules)),
      [this](ReportPipeline::News news) {
        asio::post(context_,
                   [this, news = std::move(news)]() mutable { on_report_news(std::move(news)); });
      });
  return Unit{};
}

int RunDriver::run() {
  for (const std::string& warning : options_.parsed.warnings)
    show(progress_.warning(warning, moment()));
  for (const std::string& warning : record_->warnings()) {
    ledger_.warn(warning);
    show(progress_.warning(warning, moment()));
  }
  ledger_.checkpoints_found(keeper_);
  connect();
  scope_.spawn("journal", write_journal());
  scope_.spawn("signals", handle_signals());
  scope_.spawn("deadlines", tick_loop());
  scope_.spawn("stop file", watch_stop_file());
  scope_.spawn("screen", redraw_loop());
  if (daemon_) scope_.spawn("private traind", keep_private_daemon());
  asio::post(disk_, [this] {
    const auto written = record_->write_specs(options_.spec_text, options_.parsed.resolved_yaml);
    if (written) return;
    asio::post(context_, [this, why = written.error().describe()] {
      ledger_.warn(why);
      show(progress_.warning(why, moment()));
    });
  });
  context_.run();
  disk_.join();
  return exit_code_;
}

// ---- links

void RunDriver::connect() {
  if (daemon_) return add_link(NodeId{0}, daemon_->endpoint());
  on_this_machine_ =
      std::all_of(spec_.cluster.nodes.begin(), spec_.cluster.nodes.end(),
                  [](const std::string& text) { return parse_endpoint(text)->is_loopback(); });
  for (const std::string& text : spec_.cluster.nodes)
    add_link(NodeId{static_cast<int>(links_.size())}, *parse_endpoint(text));
}

void RunDriver::add_link(NodeId id, const Endpoint& endpoint) {
  const FailureConfig& failure = spec_.run_config.failure_config;
  char host[256] = {};
  ::gethostname(host, sizeof host - 1);
  DaemonLinkOptions link{.endpoint = endpoint,
                         .self = {options_.build, "launcher", host, ::getpid(), ""},
                         .attach = {}};
  link.attach.run_id = record_->run_id();
  link.attach.run_name = record_->name();
  link.attach.epoch = record_->epoch().value;
  link.attach.dead_after_ms =
      std::chrono::duration_cast<milliseconds>(failure.node_dead_after).count();
  // A node is suspect after the second heartbeat that is missing.
  link.attach.heartbeat_ms = std::min<std::int64_t>(
      1000, std::chrono::duration_cast<milliseconds>(failure.node_suspect_after).count() / 3);
  link.attach.orphan_timeout_ms =
      std::chrono::duration_cast<milliseconds>(failure.orphan_timeout).count();
  link.suspect_after = failure.node_suspect_after;
  link.dead_after = failure.node_dead_after;
  DaemonLink::Handlers handlers;
  handlers.offered = [this, id](const NodeOffer& offer, const std::string& reached_at) {
    offers_[id] = offer;
    problems_.erase(id);
    const std::string address =
        on_this_machine_ ? "127.0.0.1" : address_for_peers(reached_at, offer.addresses);
    addresses_[id] = address;
    NodeUp up{
        NodeCapacity{id, offer.node_name, to_resources(offer.total), to_resources(offer.free)},
        address};
    for (const std::uint32_t attempt : offer.attempts) up.attempts.push_back(Attempt{attempt});
    feed(up);
  };
  handlers.received = [this, id](const Frame& frame) { received(id, frame); };
  handlers.away = [this, id](const std::string& problem) { problems_[id] = problem; };
  handlers.down = [this, id](const std::string& reason) {
    feed(NodeDown{id, reason});
    offers_.erase(id);
  };
  handlers.refused = [this](const Error& error) {
    ledger_.refuse(error);
    if (!finished_)
      scope_.spawn("finish", finish(RunEnded{RunState::Errored, error.message, std::nullopt}));
  };
  links_.push_back(
      std::make_unique<DaemonLink>(executor_, std::move(link), token_, std::move(handlers)));
  scope_.spawn("link", links_.back()->run());
}

void RunDriver::send(NodeId node, const Frame& frame) { links_.at(node.value)->send(frame); }

std::string RunDriver::node_name(NodeId node) const {
  const auto offer = offers_.find(node);
  return offer == offers_.end() ? links_.at(node.value)->endpoint_text() : offer->second.node_name;
}

asio::awaitable<void> RunDriver::keep_private_daemon() {
  for (;;) {
    if (!co_await pause_for(kPrivateDaemonEvery)) co_return;
    if (finished_ || !daemon_->ended()) continue;
    if (const auto started = daemon_->start(); !started)
      show(progress_.warning(started.error().describe(), moment()));
  }
}

void RunDriver::received(NodeId node, const Frame& frame) {
  const Attempt attempt = frame.attempt;
  switch (frame.type) {
    case MessageType::ReportBatch:
      // From a node that was lost, and comes back: its attempt is over, and nobody waits for an
      // answer.
      if (ended_ && attempt <= *ended_) return;
      if (auto m = decode<ReportBatch>(frame); m && m->count > 0) {
        feed(RankReported{attempt, Rank{m->rank}, m->first_ordinal + m->count - 1});
        pipeline_->add(attempt, std::move(*m));
      }
      return;
    case MessageType::OutputChunk:
      if (auto m = decode<OutputChunk>(frame)) on_output(node, attempt, *m);
      return;
    case MessageType::Prepared:
      if (auto m = decode<Prepared>(frame)) feed(AttemptPrepared{attempt, node, m->master_port});
      return;
    case MessageType::WorkersStarted:
      if (auto m = decode<WorkersStarted>(frame)) {
        AttemptStarted event{attempt, node, {}};
        for (const StartedWorker& worker : m->workers)
          event.pids.emplace_back(Rank{worker.rank}, worker.pid);
        feed(event);
      }
      return;
    case MessageType::StartFailed:
      if (auto m = decode<StartFailed>(frame))
        feed(StartRefused{attempt, node, Rank{m->rank},
                          Error{errc_of(m->code), m->message, m->hint}});
      return;
    case MessageType::WorkerJoined:
      if (auto m = decode<WorkerJoined>(frame)) feed(RankJoined{attempt, Rank{m->rank}});
      return;
    case MessageType::WorkerExited:
      if (auto m = decode<WorkerExited>(frame)) {
        ledger_.rank_exited(attempt, node_name(node), *m);
        feed(RankExited{attempt, Rank{m->rank}, to_rank_end(*m)});
      }
      return;
    case MessageType::GroupGone:
      feed(NodeGroupGone{attempt, node});
      return;
    case MessageType::AttemptSnapshot:
      feed(SupervisorAttached{attempt, node});
      return;
    case MessageType::AttemptLost:
      if (auto m = decode<AttemptLost>(frame)) feed(SupervisorLost{attempt, node, m->reason});
      return;
    case MessageType::WorkerPaused:
      if (auto m = decode<WorkerPaused>(frame))
        feed(RankPaused{attempt, Rank{m->rank}, m->ordinal, m->checkpoint_index});
      return;
    case MessageType::PartWritten:
      if (auto m = decode<PartWritten>(frame)) feed(PartStaged{attempt, to_part(*m)});
      return;
    case MessageType::CollectiveJoin:
      if (auto m = decode<CollectiveJoin>(frame))
        feed(CollectiveJoined{attempt, Rank{m->rank}, m->sequence, m->name, m->data});
      return;
    case MessageType::WorkerResult:
      if (auto m = decode<WorkerResult>(frame)) ledger_.result(Rank{m->rank}, m->json);
      return;
    default:
      return;  // of a newer protocol
  }
}

// ---- the controller

void RunDriver::feed(const RunEvent& event) {
  if (finished_) return;
  for (const RunAction& action : controller_.handle(event, clock_.now())) perform(action);
  changed_.notify();
}

void RunDriver::perform(const RunAction& action) {
  if (const auto* prepare = std::get_if<Prepare>(&action)) {
    const bool alone = prepare->placed.local_world_size == controller_.world_size();
    send(prepare->placed.node,
         encode(prepare_message(spec_, *record_, *prepare,
                                alone ? "127.0.0.1" : addresses_[prepare->placed.node]),
                prepare->attempt));
  } else if (const auto* start = std::get_if<Start>(&action)) {
    scope_.spawn("start workers", start_workers(*start));
  } else if (const auto* stop = std::get_if<StopGroup>(&action)) {
    send(stop->node,
         encode(StopWorkers{std::chrono::duration_cast<milliseconds>(stop->grace).count(),
                            stop->reason},
                stop->attempt));
  } else if (const auto* pause = std::get_if<Pause>(&action)) {
    static constexpr const char* kSteps[] = {"pause", "advance", "finish"};
    send(pause->node,
         encode(PauseWorkers{kSteps[static_cast<int>(pause->step)], pause->ordinal, pause->reason},
                pause->attempt));
  } else if (const auto* released = std::get_if<Release>(&action)) {
    ++releases_;
    scope_.spawn("release", release(*released));
  } else if (const auto* collective = std::get_if<SendCollective>(&action)) {
    send(collective->node,
         encode(CollectiveResult{collective->sequence, collective->parts, collective->error},
                collective->attempt));
  } else if (const auto* tell = std::get_if<TellCheckpoint>(&action)) {
    send(tell->node,
         encode(CheckpointOutcome{tell->index, tell->path, tell->error}, tell->attempt));
  } else if (const auto* commit_action = std::get_if<Commit>(&action)) {
    scope_.spawn("commit", commit(*commit_action));
  } else if (const auto* note = std::get_if<Note>(&action)) {
    if (note->level == NoteLevel::Info)
      show(progress_.phase(note->text, moment()));
    else
      ledger_.warn(note->text);
    if (note->level != NoteLevel::Info) show(progress_.warning(note->text, moment()));
  } else if (const auto* changed = std::get_if<StateChanged>(&action)) {
    on_state_changed(*changed);
  } else if (const auto* attempt_ended = std::get_if<AttemptEnded>(&action)) {
    on_attempt_ended(*attempt_ended);
  } else if (const auto* ended = std::get_if<RunEnded>(&action)) {
    scope_.spawn("finish", finish(*ended));
  }
}

void RunDriver::on_state_changed(const StateChanged& change) {
  remember({{"event", "state"},
            {"state", to_string(change.to)},
            {"trigger", to_string(change.trigger)},
            {"attempt", change.attempt.value},
            {"reason", change.reason}});
  switch (change.to) {
    case RunState::Preparing: {
      if (change.attempt == record_->start().first_attempt)
        show(progress_.started(controller_.world_size(), controller_.node_count(), moment()));
      remember({{"event", "attempt_started"},
                {"attempt", change.attempt.value},
                {"world_size", controller_.world_size()}});
      break;
    }
    case RunState::Running: {
      const auto& checkpoint = controller_.newest_checkpoint();
      ledger_.attempt_started(change.attempt, controller_.world_size());
      show(progress_.attempt_started(
          {.attempt = change.attempt.value,
           .world_size = controller_.world_size(),
           .nnodes = ledger_.nnodes(),
           .resumes_from =
               checkpoint ? std::filesystem::path(checkpoint->path).filename().string() : ""},
          moment()));
      break;
    }
    case RunState::Pausing:
      show(progress_.phase(
          fmt::format("stopping ({}): the workers meet at their next report, and checkpoint",
                      change.reason),
          moment()));
      break;
    case RunState::TearingDown:
      if (change.from != RunState::Running || !change.reason.starts_with("every rank")) {
        show(progress_.phase("stopping: waiting for the workers to end", moment()));
      }
      break;
    case RunState::Scheduling:
      if (change.trigger == RunTrigger::RestartDecided) {
        const auto& checkpoint = controller_.newest_checkpoint();
        show(progress_.restarting(
            {.attempt = change.attempt.value,
             .cause = ledger_.last_cause(),
             .resumes_from =
                 checkpoint ? std::filesystem::path(checkpoint->path).filename().string() : "",
             .failures = change.reason},
            moment()));
      }
      break;
    case RunState::Starting:
    case RunState::Finished:
    case RunState::Errored:
    case RunState::Stopped:
      break;
  }
}

void RunDriver::on_attempt_ended(const AttemptEnded& ended) {
  ended_ = ended.attempt;
  ledger_.attempt_ended(ended);
  boost::json::object event{{"event", "attempt_ended"},
                            {"attempt", ended.attempt.value},
                            {"cause", ledger_.last_cause()},
                            {"failed", ended.failed}};
  remember(std::move(event));
  output_log_.close(ended.attempt);
}

asio::awaitable<void> RunDriver::tick_loop() {
  for (;;) {
    const auto deadline = controller_.next_deadline();
    if (deadline && clock_.now() >= *deadline) feed(Tick{});
    const auto next = controller_.next_deadline();
    // A deadline that a tick did not move is looked at again a little later.
    const TimePoint until =
        next ? std::max(*next, clock_.now() + milliseconds(1)) : TimePoint::max();
    if (!co_await changed_.wait_until(until) && finished_) co_return;
  }
}

// ---- what the controller asks for

// The journal knows of the attempt before its workers exist: no later launcher takes its number
// again.
asio::awaitable<void> RunDriver::start_workers(Start action) {
  ledger_.placed(action.placement);
  const std::uint64_t asked = journal_asked_;
  while (journal_written_ < asked) {
    if (!co_await changed_.wait_until(TimePoint::max())) co_return;
  }
  send(action.node, encode(start_message(spec_, *record_, action, worker_env_), action.attempt));
}

Task<Unit> RunDriver::settled(std::uint64_t number) {
  while (settled_ < number) {
    CO_TRY([[maybe_unused]] const bool woken, co_await changed_.wait_until(TimePoint::max()));
  }
  co_return Unit{};
}

asio::awaitable<void> RunDriver::commit(Commit action) {
  if (!co_await settled(pipeline_->settle()))
    co_return;  // then rank 0's metrics of that report are here
  Metrics metrics;
  for (const PartOfCheckpoint& part : action.parts) {
    if (part.rank != Rank{0}) continue;
    const auto found = checkpoint_metrics_.find({action.attempt, part.report_ordinal});
    metrics = found == checkpoint_metrics_.end() ? pipeline_->last_metrics() : found->second;
    checkpoint_metrics_.erase(
        checkpoint_metrics_.begin(),
        checkpoint_metrics_.upper_bound({action.attempt, part.report_ordinal}));
  }
  const auto committed = co_await asio::co_spawn(
      disk_,
      [](CheckpointKeeper* keeper, const Commit* what, const Metrics* with,
         std::string created) -> asio::awaitable<std::optional<Result<CheckpointKeeper::Outcome>>> {
        co_return keeper->commit(*what, *with, created);
      }(&keeper_, &action, &metrics, format_utc(clock_.wall())),
      asio::use_awaitable);
  CommitFinished finished{action.attempt, action.index, {}, {}};
  if (*committed) {
    const CheckpointKeeper::Outcome& outcome = **committed;
    for (const std::string& warning : outcome.warnings) {
      ledger_.warn(warning);
      show(progress_.warning(warning, moment()));
    }
    finished.checkpoint = outcome.committed.info;
    remember({{"event", "checkpoint_committed"},
              {"attempt", action.attempt.value},
              {"checkpoint", finished.checkpoint->number},
              {"trained_epoch", finished.checkpoint->epoch}});
    ledger_.checkpoint_committed(outcome, action.attempt, action.parts.front().report_ordinal);
    show(progress_.checkpoint(
        {.name = std::filesystem::path(finished.checkpoint->path).filename(),
         .path = finished.checkpoint->path,
         .score = spec_.run_config.checkpoint_config.score_attribute ? outcome.committed.score
                                                                     : std::nullopt},
        moment()));
  } else {
    finished.error = committed->error().describe();
  }
  feed(finished);
}

asio::awaitable<void> RunDriver::release(Release action) {
  (void)co_await settled(
      pipeline_->settle());  // its last reports are acknowledged before it may forget them
  send(action.node, encode(ReleaseAttempt{}, action.attempt));
  --releases_;
  changed_.notify();
}

asio::awaitable<void> RunDriver::finish(RunEnded ended) {
  if (finished_) co_return;
  (void)co_await settled(pipeline_->settle());
  while (releases_ > 0) {
    if (!co_await changed_.wait_until(TimePoint::max())) break;
  }
  finished_ = true;
  remember(
      {{"event", "run_ended"}, {"outcome", to_string(ended.outcome)}, {"reason", ended.reason}});
  for (auto& link : links_) co_await link->detach();
  while (journal_written_ < journal_asked_) {
    if (!co_await changed_.wait_until(TimePoint::max())) break;
  }
  pipeline_->finish();
  for (const std::string& warning : pipeline_->stop_warnings()) ledger_.warn(warning);
  const RunSummary summary = ledger_.summary(ended, pipeline_->last_metrics());
  exit_code_ = exit_code_of(summary);
  if (record_->lock().check()) {  // else the run is another launcher's by now, and goes on
    (void)write_small_file(record_->files(), record_->folder().run_json(), run_json(summary));
    (void)write_small_file(record_->files(), record_->folder().exit_json(), exit_json(summary));
  }
  show(progress_.finish(moment()));
  if (options_.output == OutputMode::Json)
    show(end_event(summary));
  else
    show(
        summary_text(summary, {.terminal = ::isatty(STDOUT_FILENO) != 0, .color = options_.color}));
  context_.stop();
}

// ---- what comes in

void RunDriver::on_output(NodeId node, Attempt attempt, const OutputChunk& chunk) {
  std::string_view fresh;
  const auto acked =
      output_log_.append(attempt, Rank{chunk.rank}, chunk.stream, chunk.offset, chunk.data, &fresh);
  if (!acked) {
    ledger_.warn(acked.error().describe());  // it stays in the node's spool
    return;
  }
  show(progress_.worker_output(
      output_lines_.feed(node_name(node), chunk.rank, chunk.stream, fresh, chunk.end), moment()));
  if (!chunk.end) send(node, encode(AckOutput{chunk.rank, chunk.stream, *acked}, attempt));
}

void RunDriver::on_report_news(ReportPipeline::News news) {
  std::map<Attempt, AckReports> acks;
  for (const auto& [attempt, ack] : news.acks) acks[attempt].acks.push_back(ack);
  for (const auto& [attempt, message] : acks) {
    const Frame frame = encode(message, attempt);
    for (auto& link : links_)
      link->send(frame);  // a supervisor passes over ranks that are not its own
  }
  settled_ = std::max(settled_, news.settled);
  for (ReportRecord& record : news.with_checkpoint) {
    checkpoint_metrics_[{Attempt{record.attempt}, record.ordinal}] = std::move(record.metrics);
  }
  for (const std::string& warning : news.warnings) {
    ledger_.warn(warning);
    show(progress_.warning(warning, moment()));
  }
  if (!news.shown.empty()) {
    ledger_.reported(news.shown.back());
    show(progress_.reports(news.shown, moment()));
  }
  if (news.stop) feed(StopAsked{StopKind::StopCondition, *news.stop});
  changed_.notify();
}

void RunDriver::remember(boost::json::object event) {
  journal_queue_.push_back(std::move(event));
  ++journal_asked_;
  changed_.notify();
}

asio::awaitable<void> RunDriver::write_journal() {
  for (;;) {
    if (journal_queue_.empty()) {
      if (!co_await changed_.wait_until(TimePoint::max())) co_return;
      continue;
    }
    const std::vector<boost::json::object> events = std::exchange(journal_queue_, {});
    const std::uint64_t until = journal_asked_;
    const auto written = co_await asio::co_spawn(
        journal_disk_,
        [](Journal* journal, const std::vector<boost::json::object>* group,
           std::string time) -> asio::awaitable<std::optional<Result<Unit>>> {
          co_return journal->append(*group, time);
        }(&record_->journal(), &events, format_utc(clock_.wall())),
        asio::use_awaitable);
    if (!*written) {
      ledger_.warn("the journal cannot be written: " + written->error().describe());
      show(progress_.warning("the journal cannot be written: " + written->error().describe() +
                                 "; the run goes on, but could not be resumed",
                             moment()));
    }
    journal_written_ = until;
    changed_.notify();
  }
}

asio::awaitable<void> RunDriver::handle_signals() {
  asio::signal_set signals(executor_, SIGINT, SIGTERM, SIGHUP);
  for (;;) {
    const auto [error, number] = co_await signals.async_wait(asio::as_tuple(asio::use_awaitable));
    if (error) co_return;
    if (++interrupts_ > 2) ::_exit(128 + number);  // even the quick way hangs
    if (number == SIGINT)
      feed(StopAsked{StopKind::Interrupt, "Ctrl-C"});
    else
      feed(StopAsked{StopKind::Terminate, number == SIGTERM ? "SIGTERM" : "SIGHUP"});
  }
}

// `train-run stop` on any machine that sees the storage leaves its request in the run's folder.
asio::awaitable<void> RunDriver::watch_stop_file() {
  const std::string path = record_->folder().path() + "/.stop";
  std::error_code ec;
  std::filesystem::remove(path, ec);  // of an earlier launcher
  for (;;) {
    if (!co_await pause_for(kStopFileEvery)) co_return;
    if (!std::filesystem::exists(path, ec)) continue;
    std::filesystem::remove(path, ec);
    feed(StopAsked{StopKind::Command, "train-run stop"});
  }
}

asio::awaitable<void> RunDriver::redraw_loop() {
  for (;;) {
    if (!problems_.empty() && controller_.state() == RunState::Scheduling) {
      std::vector<WaitingNode> missing;
      for (const auto& [node, problem] : problems_)
        missing.push_back({links_[node.value]->endpoint_text(), problem, {}});
      show(progress_.waiting(links_.size(), missing, moment()));
    }
    if (const auto due = progress_.next_deadline(); due && clock_.now() >= *due)
      show(progress_.tick(moment()));
    const TimePoint until =
        std::min(progress_.next_deadline().value_or(TimePoint::max()), clock_.now() + seconds(1));
    if (!co_await pause_for(std::max<Duration>(until - clock_.now(), milliseconds(20)))) co_return;
  }
}

void RunDriver::show(const std::string& text) {
  if (text.empty()) return;
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

int refuse(const RunOptions& options, const Error& error, int code) {
  fmt::print(stderr, "train-run: error: {}\n", error.message);
  if (!error.hint.empty()) fmt::print(stderr, "train-run: {}\n", error.hint);
  if (options.output == OutputMode::Json) {
    fmt::print("{}\n", boost::json::serialize(boost::json::object{
                           {"event", "end"}, {"code", code}, {"cause", error.message}}));
  }
  return code;
}

}  // namespace

int run_job(const RunOptions& options) {
  ::signal(SIGPIPE, SIG_IGN);
  const JobSpec& spec = options.parsed.spec;
  std::optional<Token> token;
  if (!spec.cluster.token_file.empty()) {
    auto read = read_token_file(spec.cluster.token_file);
    if (!read) return refuse(options, read.error(), 77);
    token.emplace(std::move(*read));
  }
  auto env = worker_environment_base(spec, options.environment);
  if (!env) return refuse(options, env.error(), 78);
  // The private traind comes up while the run's folder is made and synced.
  std::optional<PrivateDaemon> daemon;
  if (spec.cluster.nodes.empty()) {
    const std::string folder = join_path(spec.run_config.storage_path, spec.run_config.name);
    if (!options.unique_name) daemon = PrivateDaemon::find(join_path(folder, kDaemonNote));
    if (!daemon) {
      daemon.emplace(fmt::format("{}", ::getpid()));
      if (const auto started = daemon->start(); !started)
        return refuse(options, started.error(), 69);
    }
  }
  auto record = RunRecord::open(
      spec, {.unique_name = options.unique_name, .force = options.force, .build = options.build});
  if (!record) {
    if (daemon) daemon->stop();
    return refuse(options, record.error(),
                  exit_code_of(Ending{Outcome::Refused, {}, record.error().code}));
  }
  if (daemon) daemon->remember(join_path((*record)->folder().path(), kDaemonNote));
  auto* driver = new RunDriver(options, std::move(*record), std::move(daemon), std::move(token),
                               std::move(*env));
  if (const auto opened = driver->open_sinks(); !opened) return refuse(options, opened.error(), 74);
  const int code = driver->run();
  std::fflush(nullptr);
  ::_exit(code);  // flows that wait for the network are not unwound; all that matters is on disk
}

}  // namespace train
