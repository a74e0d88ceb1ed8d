// The terminal of a run. Progress decides what to show; RunScreen writes it to stdout and keeps the
// live line alive. Warnings also go to the summary builder, since the end of the run repeats them.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cluster/run/driver_events.h"
#include "launcher/cluster/run/run_summary_builder.h"
#include "launcher/core/run_controller.h"
#include "launcher/report/output_view.h"
#include "launcher/report/progress.h"
#include "launcher/report/user_messages.h"
#include "lib/net/notifier.h"

namespace train {

namespace asio = boost::asio;

/// Return the metric values that end the run: its stop conditions, and the totals that
/// train_loop_config has under their usual names (epochs, num_epochs, max_epochs; steps, num_steps,
/// max_steps, total_steps).
std::vector<Goal> goals_of(const JobSpec& spec);

/// Return what to show of a run, and where.
ProgressOptions progress_options(const JobSpec& spec, const RunRecord& record, OutputMode mode,
                                 bool color);

/// How the terminal shows workers' output, as the command line says it.
struct ScreenOptions {
  bool fold = true;
  std::optional<LinePrefix> prefix = {};
  std::optional<RankSet> local_ranks = {};
  StreamChoice redirects = {}, tee = {};
  std::optional<std::uint64_t> lines_max = {};  // a second and rank; unset: by mode
  /// Workers' stderr goes to stderr, and so does what is ours: stdout is the workers' alone.
  bool separate = false;
  /// stdout shows the event stream, and nothing else.
  bool all_events = false;
};

/// Return the view of workers' output. What is no terminal is read later: there, lines wait longer
/// for the same ones of other ranks, so that it depends less on chance which of them are one; and
/// none is left out unless the user says so.
OutputViewOptions view_options(const ScreenOptions& options, OutputMode mode);

class RunScreen final : public UserMessages {
 public:
  RunScreen(asio::any_io_executor executor, ProgressOptions options, OutputViewOptions view,
            const ScreenOptions& screen, const Clock& clock, RunSummaryBuilder& summary_builder);

  /// Programs that follow the run are told what the screen shows, and more: see DriverEvents.
  DriverEvents& events() { return events_; }
  Moment moment() const { return {clock_.now(), clock_.wall()}; }
  /// Show what `say(progress, moment)` returns.
  template <class Say>
  void show(Say&& say) {
    const Moment at = moment();
    events_.tell([&](Progress& progress) { return say(progress, at); });
    write(say(progress_, at));
  }
  void warn(const std::string& text) override;
  void phase(std::string_view text) override;
  /// Show the state that the run enters; for Preparing, that the attempt begins.
  void state_changed(const StateChanged& change, const RunController& controller);
  /// Show the output of these workers from now on.
  void placed(Attempt attempt, const Placement& placement, const ScalingConfig& scaling);
  void worker_output(const std::string& node, std::int32_t rank, std::uint8_t stream,
                     std::string_view data, bool end);
  /// Remove the live line, and print the summary.
  void end(const RunSummary& summary);
  /// Redraw until cancelled. `missing`: the nodes that the run waits for now.
  asio::awaitable<void> run(std::size_t nodes_wanted,
                            std::function<std::vector<WaitingNode>()> missing);

 private:
  void write(const std::string& text) const;
  /// Show the workers' lines that are held back: something else is shown next.
  void flush_output();
  /// Write text unchanged: workers' output, by stream.
  static void put(std::FILE* file, const std::string& text);
  /// Show what `ask` returns for the view of each stream.
  void show_output(const std::function<std::string(OutputView&)>& ask);
  std::optional<TimePoint> output_deadline() const;

  const Clock& clock_;
  RunSummaryBuilder& summary_builder_;
  OutputMode mode_;
  bool color_;
  Progress progress_;
  DriverEvents events_;
  const bool separate_, all_events_;
  std::vector<OutputView> outputs_;  // of both streams; if they are separate, one of each
  Notifier output_held_;             // one of them has a deadline
};

}  // namespace train
