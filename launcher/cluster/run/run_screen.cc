#include "launcher/cluster/run/run_screen.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "launcher/core/placed_ranks.h"
#include "launcher/report/summary.h"
#include "lib/base/print.h"
#include "lib/base/secrets.h"

namespace train {
namespace {

ProgressOptions fit_to_terminal(ProgressOptions options) {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    options.columns = size.ws_col;
  return options;
}

/// Return the newest checkpoint's name, or "" if there is none.
std::string newest_checkpoint_of(const RunController& controller) {
  const auto& checkpoint = controller.newest_checkpoint();
  return checkpoint ? checkpoint->path.substr(checkpoint->path.rfind('/') + 1) : "";
}

}  // namespace

std::vector<Goal> goals_of(const JobSpec& spec) {
  std::vector<Goal> goals;
  for (const StopCondition& stop : spec.run_config.stop)
    goals.push_back({stop.metric, stop.at_least});
  // The names that training loops give to their totals. At the end of a loop, the metric `epoch` is
  // the last epoch's number, while `step` counts the completed steps.
  const auto total = [&](std::string_view metric, double less,
                         std::initializer_list<std::string_view> names) {
    for (const std::string_view name : names) {
      const auto* value = spec.train_loop_config.if_contains(name);
      if (value == nullptr || !value->is_number()) continue;
      goals.push_back({std::string(metric), value->to_number<double>() - less});
      return;
    }
  };
  total("epoch", 1, {"epochs", "num_epochs", "max_epochs"});
  total("step", 0, {"steps", "num_steps", "max_steps", "total_steps"});
  return goals;
}

ProgressOptions progress_options(const JobSpec& spec, const RunRecord& record, OutputMode mode,
                                 bool color) {
  const RunConfig& config = spec.run_config;
  ProgressOptions progress{.mode = mode,
                           .color = color,
                           .run = record.name(),
                           .path = record.location(),
                           .metrics = {},
                           .goals = goals_of(spec),
                           .other_roles = others_text(spec.scaling_config)};
  for (const StopCondition& stop : config.stop) progress.metrics.push_back(stop.metric);
  if (config.checkpoint_config.score_attribute)
    progress.metrics.push_back(*config.checkpoint_config.score_attribute);
  return progress;
}

OutputViewOptions view_options(const ScreenOptions& options, OutputMode mode) {
  constexpr std::uint64_t kTerminalLinesMax = 1000;  // nobody reads more
  return {
      .fold = options.fold,
      .window = mode == OutputMode::Live ? Duration(milliseconds(100)) : seconds(1),
      .prefix = options.prefix.value_or(LinePrefix()),
      .local_ranks = options.local_ranks,
      .redirects = options.redirects,
      .tee = options.tee,
      .lines_max = options.lines_max.value_or(mode == OutputMode::Live ? kTerminalLinesMax : 0)};
}

RunScreen::RunScreen(asio::any_io_executor executor, ProgressOptions options,
                     OutputViewOptions view, const ScreenOptions& screen, const Clock& clock,
                     RunSummaryBuilder& summary_builder)
    : clock_(clock),
      summary_builder_(summary_builder),
      mode_(options.mode),
      color_(options.color),
      progress_(fit_to_terminal(options), moment()),
      events_(std::move(options), moment()),
      separate_(screen.separate),
      all_events_(screen.all_events),
      output_held_(std::move(executor)) {
  for (int stream = 0; stream < (separate_ ? 2 : 1); ++stream) outputs_.emplace_back(view);
  if (all_events_) events_.add([](const std::string& line, bool /*newest*/) { put(stdout, line); });
}

void RunScreen::warn(const std::string& text) {
  summary_builder_.warn(text);
  flush_output();
  show([&](Progress& p, Moment at) { return p.warning(text, at); });
}

void RunScreen::phase(std::string_view text) {
  flush_output();
  show([&](Progress& p, Moment at) { return p.phase(text, at); });
}

void RunScreen::state_changed(const StateChanged& change, const RunController& controller) {
  flush_output();
  switch (change.to) {
    case RunState::Preparing:
      return show([&](Progress& p, Moment at) {
        return p.started(controller.world_size(), controller.node_count(), at);
      });
    case RunState::Running: {
      const bool found = change.trigger == RunTrigger::GroupFound;
      const AttemptNews news{.attempt = change.attempt.value,
                             .world_size = controller.world_size(),
                             .nnodes = summary_builder_.nnodes(),
                             .resumes_from = found ? "" : newest_checkpoint_of(controller),
                             .found_running = found,
                             .from_standby = controller.from_standby()};
      return show([&](Progress& p, Moment at) { return p.attempt_started(news, at); });
    }
    case RunState::Pausing:
      return phase(
          fmt::format("stopping ({}): the workers will checkpoint together at their next {}",
                      change.reason, controller.pauses_at_checkpoint() ? "checkpoint" : "report"));
    case RunState::TearingDown:
      if (change.from != RunState::Running || !change.reason.starts_with("every rank"))
        phase("stopping: waiting for the workers to end");
      return;
    case RunState::Scheduling: {
      const RestartNews news{.attempt = change.attempt.value,
                             .failed = summary_builder_.last_failed(),
                             .cause = summary_builder_.last_cause(),
                             .resumes_from = newest_checkpoint_of(controller),
                             .failures = change.reason,
                             .wait = change.wait};
      return show([&](Progress& p, Moment at) { return p.restarting(news, at); });
    }
    case RunState::Attaching:
    case RunState::Starting:
    case RunState::Finished:
    case RunState::Errored:
    case RunState::Stopped:
      return;
  }
}

void RunScreen::placed(Attempt attempt, const Placement& placement, const ScalingConfig& scaling) {
  const auto ranks = static_cast<std::size_t>(workers_of_all_roles(placement));
  std::vector<std::int32_t> local_ranks(ranks);
  std::vector<std::string> roles(placement.other_roles.empty() ? 0 : ranks);
  for (const PlacedNode& node : placement.nodes) {
    for (const WorkerRanks& worker : ranks_on(node, placement)) {
      const auto rank = static_cast<std::size_t>(worker.rank);
      local_ranks[rank] = worker.in_role().local_rank;
      const std::string role = role_text(scaling, placement, Rank{worker.rank});
      if (!roles.empty()) roles[rank] = role.substr(0, role.rfind(' '));
    }
  }
  show_output([&](OutputView& view) { return view.begin(attempt.value, local_ranks, roles); });
}

void RunScreen::show_output(const std::function<std::string(OutputView&)>& ask) {
  for (OutputView& view : outputs_)
    put(&view == &outputs_.front() ? stdout : stderr, progress_.worker_output(ask(view), moment()));
}

std::optional<TimePoint> RunScreen::output_deadline() const {
  std::optional<TimePoint> soonest;
  for (const OutputView& view : outputs_)
    if (const auto due = view.next_deadline(); due && (!soonest || *due < *soonest)) soonest = due;
  return soonest;
}

void RunScreen::worker_output(const std::string& node, std::int32_t rank, std::uint8_t stream,
                              std::string_view data, bool end) {
  if (mode_ == OutputMode::Json) return;
  const bool waited = output_deadline().has_value();
  const Moment at = moment();
  const bool second = separate_ && stream == 2;
  put(second ? stderr : stdout,
      progress_.worker_output(outputs_[second ? 1 : 0].feed(node, rank, stream, data, end, at.now),
                              at));
  if (!waited && output_deadline()) output_held_.notify();
}

void RunScreen::flush_output() {
  show_output([](OutputView& view) { return view.flush(); });
}

void RunScreen::end(const RunSummary& summary) {
  show_output([](OutputView& view) { return view.close(); });
  events_.put(end_event(summary));
  write(progress_.finish(moment()));
  write(mode_ == OutputMode::Json ? end_event(summary) : summary_text(summary, {.color = color_}));
}

asio::awaitable<void> RunScreen::run(std::size_t nodes_wanted,
                                     std::function<std::vector<WaitingNode>()> missing) {
  for (;;) {
    if (const auto nodes = missing(); !nodes.empty())
      show([&](Progress& p, Moment at) { return p.waiting(nodes_wanted, nodes, at); });
    if (const auto due = progress_.next_deadline(); due && clock_.now() >= *due)
      write(progress_.tick(moment()));
    if (const auto due = output_deadline(); due && clock_.now() >= *due)
      show_output([this](OutputView& view) { return view.due(clock_.now()); });
    const TimePoint soonest = clock_.now() + milliseconds(20);
    const TimePoint until = std::max(
        soonest,
        std::min({progress_.next_deadline().value_or(TimePoint::max()),
                  output_deadline().value_or(TimePoint::max()), clock_.now() + seconds(1)}));
    const auto woken = co_await output_held_.wait_until(until);
    if (!woken) co_return;
  }
}

void RunScreen::write(const std::string& text) const {
  if (all_events_) return;
  put(separate_ ? stderr : stdout, redacted(text));
}

void RunScreen::put(std::FILE* file, const std::string& text) {
  if (text.empty()) return;
  write_screen(file, text);
  if (file == stdout) flush_out();
}

}  // namespace train
