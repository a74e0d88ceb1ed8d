#include "launcher/cluster/run/run_summary_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <filesystem>

#include "launcher/core/placed_ranks.h"
#include "lib/base/secrets.h"
#include "lib/base/terminal_text.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr std::size_t kWarningsMax = 100;
constexpr std::size_t kResultDepthMax = 31;  // a reader of 32 levels must take exit.json, too

CheckpointSummary summary_of(const KeptCheckpoint& kept, const CheckpointConfig& config) {
  CheckpointSummary summary{std::filesystem::path(kept.info.path).filename(),
                            kept.info.path,
                            config.score_attribute.value_or(""),
                            {}};
  if (config.score_attribute) summary.score = kept.score;
  return summary;
}

}  // namespace

RunSummaryBuilder::RunSummaryBuilder(const JobSpec& spec, RunRecord& record, const Clock& clock,
                                     std::function<void(std::function<void()>)> on_disk,
                                     const RunLog& log)
    : spec_(spec),
      record_(record),
      clock_(clock),
      on_disk_(std::move(on_disk)),
      log_(log),
      began_(clock.now()),
      began_wall_(clock.wall()),
      attempt_began_(began_) {
  for (const PastAttempt& past : record.past()) {
    const auto begun = parse_utc(past.began);
    const bool ended = !past.ended.empty();
    attempts_.push_back({.attempt = past.id.value,
                         .world_size = past.world_size,
                         .nnodes = past.nnodes,
                         .begun = begun,
                         .duration = ended ? parse_utc(past.ended) - begun : Duration{},
                         .cause = past.failed ? past.cause
                                  : ended     ? ""
                                              : "its launcher ended",
                         .time = past.time});
    if (past.checkpoint_report == 0) continue;
    checkpoint_report_ = {past.id, past.checkpoint_report};
    checkpoint_at_ = moment_of(parse_utc(past.checkpoint_at));
  }
  ingest_ = record.ingest();
  if (attempts_.empty()) return;
  began_wall_ = attempts_.front().begun;  // under the run's first launcher
  began_ = moment_of(began_wall_);
}

/// Return when the wall clock showed `wall`, which is past.
TimePoint RunSummaryBuilder::moment_of(std::chrono::system_clock::time_point wall) const {
  const auto since = std::chrono::duration_cast<Duration>(clock_.wall() - wall);
  return clock_.now() - std::max(since, Duration::zero());
}

void RunSummaryBuilder::warn(const std::string& full_text) {
  log_.warning(full_text);
  const std::string text = redacted(full_text);
  const bool known = std::find(warnings_.begin(), warnings_.end(), text) != warnings_.end();
  if (!known && warnings_.size() < kWarningsMax) warnings_.push_back(text);
}

void RunSummaryBuilder::attempt_started(Attempt attempt, int world_size) {
  attempt_began_ = clock_.now();
  began_attempt_ = true;
  if (!attempts_.empty() && attempts_.back().attempt == attempt.value) {  // found running
    attempt_began_ = moment_of(attempts_.back().begun);
    attempts_.back().cause.clear();
    return;
  }
  attempts_.push_back({.attempt = attempt.value,
                       .world_size = world_size,
                       .nnodes = nnodes(),
                       .begun = clock_.wall(),
                       .cause = ""});
}

void RunSummaryBuilder::rank_exited(const std::string& node, const RankExited& event) {
  WorkerFailure failure{.kind = event.end.signaled ? EndKind::Killed : EndKind::Exited,
                        .rank = event.rank.value,
                        .node = node,
                        .role = role_text(spec_.scaling_config, placement_, event.rank),
                        .attempt = event.attempt.value,
                        .end = event.end};
  if (!event.end.clean())
    write(record_.folder().rank(event.attempt, event.rank),
          record_.folder().error_json(event.attempt, event.rank), error_json(failure));
  failures_[{event.attempt, event.rank}] = std::move(failure);
}

// Write a file, if possible: the summary says the same.
void RunSummaryBuilder::write(const std::string& folder, const std::string& path,
                              std::string text) {
  on_disk_([files = &record_.files(), folder, path, text = std::move(text)] {
    std::error_code ec;
    std::filesystem::create_directories(folder, ec);
    (void)write_small_file(*files, path, text);
  });
}

void RunSummaryBuilder::result(Rank rank, const std::string& json) {
  boost::system::error_code ec;
  boost::json::parse_options options;
  options.max_depth = kResultDepthMax;
  (void)boost::json::parse(json, ec, {}, options);
  if (ec == boost::json::error::too_deep)
    return warn(
        fmt::format("the result of rank {} is nested more than {} levels deep and is "
                    "omitted",
                    rank.value, kResultDepthMax));
  if (ec) return warn(fmt::format("the result of rank {} is not JSON and is omitted", rank.value));
  results_[rank] = json;
}

/// Return the program that a rank runs.
std::string RunSummaryBuilder::program_of(Rank rank) const {
  const int role = role_rank_of(placement_, rank).role;
  const auto& others = spec_.scaling_config.other_roles;
  if (role > 0 && std::cmp_less_equal(role, others.size()))
    return others[static_cast<std::size_t>(role) - 1].command.front();
  return spec_.command.empty() ? "" : spec_.command.front();
}

RootCause RunSummaryBuilder::root_cause(const AttemptEnded& ended) const {
  if (ended.root_rank) {
    const auto found = failures_.find({ended.attempt, *ended.root_rank});
    if (ended.root_end && found != failures_.end()) {
      RootCause cause = root_cause_of(found->second, ended.collateral);
      // What the attempt's cause adds to a worker's death: who cannot be killed.
      if (!ended.stuck.empty()) cause.text.cause += "; " + ended.cause;
      return cause;
    }
    if (ended.failure == FailureKind::Hung)
      return root_cause_of({.kind = EndKind::Hung,
                            .rank = ended.root_rank->value,
                            .node = ended.root_node,
                            .attempt = ended.attempt.value,
                            .detail = ended.cause,
                            .marks = ended.marks},
                           ended.collateral);
    if (ended.start_error) {
      WorkerFailure failure;
      failure.kind = EndKind::StartFailed;
      failure.rank = ended.root_rank->value;
      failure.node = ended.root_node;
      failure.end.status = ended.start_error->code == Errc::NotFound     ? ENOENT
                           : ended.start_error->code == Errc::Permission ? EACCES
                                                                         : EIO;
      failure.role = role_text(spec_.scaling_config, placement_, *ended.root_rank);
      failure.program = program_of(*ended.root_rank);
      failure.detail = ended.start_error->describe();
      failure.attempt = ended.attempt.value;
      RootCause cause = root_cause_of(std::move(failure), ended.collateral);
      cause.text.cause = ended.cause;
      return cause;
    }
  }
  RootCause cause;
  cause.text = {ended.cause, "its traind and supervisor"};
  cause.node = ended.root_node;
  cause.collateral = ended.collateral;
  return cause;
}

void RunSummaryBuilder::attempt_ended(const AttemptEnded& ended) {
  began_attempt_ = true;  // perhaps under an earlier launcher
  last_cause_ = ended.cause;
  last_failed_ = ended.failed;
  root_.reset();  // an earlier attempt's failure did not end the run
  if (ended.failed || ended.failure) root_ = root_cause(ended);
  if (ended.failed) {
    last_cause_ = root_->text.cause;
    write(record_.folder().attempt(ended.attempt), record_.folder().cause_json(ended.attempt),
          cause_json(*root_, ended.attempt.value));
  }
  if (attempts_.empty() || attempts_.back().attempt != ended.attempt.value)
    attempt_started(ended.attempt, placement_.world_size);
  AttemptSummary& attempt = attempts_.back();
  attempt.duration = clock_.now() - attempt_began_;
  attempt.time = ended.time;
  if (ended.failed || ended.resized) attempt.cause = last_cause_;
  if (!ended.failed) return;
  const bool has_checkpoint = checkpoint_report_ && checkpoint_report_->first == ended.attempt;
  attempt.lost = clock_.now() - (has_checkpoint ? checkpoint_at_ : attempt_began_);
  if (newest_report_ && Attempt{newest_report_->attempt} == ended.attempt) {
    const std::uint64_t kept = has_checkpoint ? checkpoint_report_->second : 0;
    attempt.redone = static_cast<std::int64_t>(newest_report_->report_seq -
                                               std::min(kept, newest_report_->report_seq));
  }
}

ExceptionNews RunSummaryBuilder::exception_of(Attempt attempt) const {
  ExceptionNews news{.attempt = attempt.value, .cause = last_cause_};
  if (root_ && root_->worker) news.ranks.push_back(*root_->worker);
  const std::int32_t root = news.ranks.empty() ? -1 : news.ranks.front().rank;
  for (auto failure = failures_.lower_bound({attempt, Rank{0}});
       failure != failures_.end() && failure->first.first == attempt; ++failure) {
    const WorkerFailure& rank = failure->second;
    if (rank.end.clean() || rank.end.stop_requested || rank.rank == root) continue;
    news.ranks.push_back(rank);
  }
  return news;
}

void RunSummaryBuilder::checkpoint_committed(const CheckpointManager::Outcome& outcome,
                                             Attempt attempt, std::uint64_t report_seq) {
  latest_ = outcome.committed;
  best_ = outcome.best;
  checkpoint_report_ = {attempt, report_seq};
  checkpoint_at_ = clock_.now();
}

std::optional<CheckpointSummary> RunSummaryBuilder::latest_checkpoint() const {
  if (!latest_) return std::nullopt;
  return summary_of(*latest_, spec_.run_config.checkpoint_config);
}

void RunSummaryBuilder::setup_failed(const std::string& cause, std::vector<std::string> lines) {
  setup_failed_ = true;
  root_ = RootCause{.text = {cause, "how the command of `setup` ended"}, .lines = std::move(lines)};
}

void RunSummaryBuilder::checkpoints_found(const CheckpointManager& manager) {
  best_ = manager.best();
  latest_ = manager.latest();
}

RunSummary RunSummaryBuilder::summary(const RunEnded& ended, const Metrics& last_metrics,
                                      const TimeAccounts& time) const {
  RunSummary summary;
  summary.time = time;
  summary.data = data_;
  for (const auto& [dataset, counts] : ingest_.counts(/*live=*/false))
    summary.ingest.push_back({dataset, counts.wanted, counts.serving, counts.deaths});
  summary.run = record_.name();
  summary.path = record_.location();
  summary.logs = record_.folder().path() + "/attempts";
  switch (ended.outcome) {
    case RunState::Finished:
      summary.outcome = Outcome::Succeeded;
      break;
    case RunState::Stopped:
      summary.outcome =
          ended.stop == StopKind::Terminate ? Outcome::Preempted : Outcome::Interrupted;
      break;
    default:
      summary.outcome = replaced() ? Outcome::Replaced
                        : began_attempt_ || setup_failed_ || record_.start().ended
                            ? Outcome::Failed
                            : Outcome::Refused;
  }
  summary.reason = ended.reason;
  summary.workers_stay = ended.workers_stay;
  if (summary.outcome == Outcome::Refused)
    summary.error = refused_.value_or(Error{Errc::ResourceExhausted, ended.reason, ""});
  if (summary.outcome == Outcome::Replaced)
    summary.error =
        Error{Errc::Fenced, refused_->message, "follow it with train-run attach " + summary.path};
  if (summary.outcome == Outcome::Failed) {
    summary.root = root_;
    if (setup_failed_) summary.logs = record_.folder().setup_log();
    if (root_ && root_->worker) {
      summary.logs =
          record_.folder().rank(Attempt{root_->worker->attempt}, Rank{root_->worker->rank});
    }
  }
  summary.world_size = placement_.world_size;
  summary.nnodes = nnodes();
  summary.begun = began_wall_;
  summary.ended = clock_.wall();
  summary.duration = duration();
  summary.attempts = attempts_;
  const CheckpointConfig& config = spec_.run_config.checkpoint_config;
  if (best_) summary.best = summary_of(*best_, config);
  summary.latest = latest_checkpoint();
  if (summary.outcome != Outcome::Succeeded && newest_report_) {
    const bool same =
        checkpoint_report_ && checkpoint_report_->first == Attempt{newest_report_->attempt};
    summary.lost_steps = static_cast<std::int64_t>(
        newest_report_->report_seq -
        (same ? std::min(checkpoint_report_->second, newest_report_->report_seq) : 0));
  }
  summary.metrics = last_metrics;
  summary.results.resize(
      results_.empty() ? 0 : static_cast<std::size_t>(results_.rbegin()->first.value) + 1);
  for (const auto& [rank, json] : results_) summary.results[rank.value] = json;
  summary.warnings = warnings_;
  const bool ours_to_resume = summary.outcome == Outcome::Failed ||
                              summary.outcome == Outcome::Interrupted ||
                              summary.outcome == Outcome::Preempted;
  if (ours_to_resume) summary.resume_command = "train-run resume " + shell_word(summary.path);
  return summary;
}

}  // namespace train
