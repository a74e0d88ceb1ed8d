// Shows a run in progress. Pure: takes news and the time, returns bytes for the terminal. The
// driver writes them, asks next_deadline() when to call tick(), and calls finish() before it prints
// the summary. There are three modes.
// Live: a terminal. One line, redrawn at most 10 times a second, with workers' output and lasting
// lines above it.
// Plain: CI or a file. A line now and then, less often the longer the run takes; never a flood.
// Json: --output json. One object per line: started, attempt, waiting, report, checkpoint,
// validation, restart, warning (end: summary.h). Of these a driver gets all but report, and also
// run and logged (exception: summary.h).
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/report/time_left.h"
#include "lib/base/json_text.h"
#include "lib/base/metrics.h"
#include "lib/base/time.h"

namespace train {

/// A moment on two clocks: monotonic for decisions, wall clock for what is written.
struct Moment {
  TimePoint now;
  std::chrono::system_clock::time_point wall;
};

enum class OutputMode { Live, Plain, Json };

struct ProgressOptions {
  OutputMode mode = OutputMode::Plain;
  bool color = false;  // the caller has checked NO_COLOR and TERM
  int columns = 80;
  std::string run = {};
  std::string path = {};  // the run's folder
  /// Shown first: the metrics of stop rules and of the score. Others follow while there is room.
  std::vector<std::string> metrics = {};
  std::vector<Goal> goals = {};  // metric values that end the run
  /// With Json: for a program that follows the run (docs/driver.md). No reports, since it reads
  /// metrics.jsonl itself, but how far that has come, and which ranks failed.
  bool for_driver = false;
  std::string other_roles = {};  // their workers: " and 2 of role reader"; empty: there are none
};

struct AttemptNews {
  std::uint32_t attempt = 0;
  int world_size = 0;
  int nnodes = 0;
  std::string resumes_from = {};  // a checkpoint's name; empty: from the beginning
  bool found_running = false;     // an earlier launcher had started it
  int from_standby = 0;           // how many of its workers were standby processes
};

struct CheckpointNews {
  std::string name = {};
  std::string path = {};
  std::optional<double> score = {};
  std::uint32_t attempt = 0;
  std::uint64_t report_seq = 0;  // rank 0's
};

struct ValidationNews {
  std::string name = {};    // of the checkpoint
  std::string status = {};  // validated, failed, timeout
  Metrics metrics = {};
  Duration took = Duration::zero();
};

struct RestartNews {
  std::uint32_t attempt = 0;  // the one that ended
  bool failed = true;         // else the group only changes its size
  std::string cause = {};     // failure_text's
  std::string resumes_from = {};
  std::string failures = {};         // "1 of 3 failures used"; empty: unlimited
  Duration wait = Duration::zero();  // backoff before the next attempt
};

struct WaitingNode {
  std::string address;
  std::string problem;  // "connection refused", "no answer"
  std::optional<Duration> since;
};

/// Return "waiting for 2 of 3 nodes: b:7070 (connection refused), c:7070 (no answer for 4 s)".
std::string waiting_text(std::size_t nodes_wanted, std::span<const WaitingNode> missing);

/// The version of what a driver is told (docs/driver.md).
inline constexpr int kDriverProtocol = 1;

class Progress {
 public:
  Progress(ProgressOptions options, Moment at);

  // Only for a driver; otherwise these return nothing.
  /// The launcher follows the run from here on: `folder` has its files, and metrics.jsonl there has
  /// `logged` bytes of earlier launchers.
  std::string run_opened(const std::string& run_id, const std::string& folder, std::uint64_t logged,
                         Moment at);
  std::string logged(std::uint64_t bytes, Moment at);

  std::string started(int world_size, int nnodes, Moment at);
  std::string attempt_started(const AttemptNews& news, Moment at);
  std::string waiting(std::size_t nodes_wanted, std::span<const WaitingNode> missing, Moment at);
  /// Take in reports of any rank; only rank 0's count and are shown.
  std::string reports(std::span<const ReportRecord> reports, Moment at);
  std::string checkpoint(const CheckpointNews& news, Moment at);
  /// Return a lasting line if there are metrics. If there are none, a warning says why.
  std::string validated(const ValidationNews& news, Moment at);
  std::string restarting(const RestartNews& news, Moment at);
  /// Show whole lines, as OutputLines makes them. With --output json they are not shown, because
  /// stdout is then for programs.
  std::string worker_output(std::string_view lines, Moment at);
  /// Show a lasting line from the launcher, with "warning: " in front.
  std::string warning(std::string_view text, Moment at);
  /// Set what is happening before the first report, or while stopping: "stopping: waiting for 2
  /// workers to checkpoint".
  std::string phase(std::string_view text, Moment at);
  std::string tick(Moment at);
  void resize(int columns) { options_.columns = columns; }
  std::optional<TimePoint> next_deadline() const;
  /// Show the last report if it was held back, and remove the live line.
  std::string finish(Moment at);

 private:
  std::string lasting(std::string_view line, Moment at);
  std::string clear();
  std::string redraw(Moment at);
  std::string json(JsonWriter& event);
  JsonWriter begin_event(std::string_view name, Moment at) const;
  std::string show_report(Moment at, bool hold_back);
  TimePoint report_is_due_at() const;
  Duration plain_interval() const;
  std::string status_line(Moment at, bool cut) const;
  std::vector<std::string> metric_parts() const;
  void count(const ReportRecord& report, TimePoint now);
  std::string rate_text() const;
  std::string time_left_text(Moment at) const;

  ProgressOptions options_;
  TimePoint began_;
  std::optional<ReportRecord> last_report_;  // rank 0's
  bool held_back_ = false;                   // last_report_ is not shown yet
  std::string phase_ = "starting";
  std::string checkpoint_;
  int restarts_ = 0;
  std::uint64_t reports_ = 0;
  bool counts_steps_ = false;  // the metric `step`; otherwise it counts reports
  std::deque<std::pair<TimePoint, double>> samples_;
  TimeLeft time_left_;
  // Live
  bool drawn_ = false, changed_ = true;
  std::optional<TimePoint> drawn_at_;
  // Plain and Json
  std::optional<TimePoint> printed_at_;
  std::optional<double> printed_epoch_;
  int printed_ = 0;
  std::string waiting_key_;  // the last waiting line without its times
  std::optional<TimePoint> waiting_printed_at_;
};

}  // namespace train
