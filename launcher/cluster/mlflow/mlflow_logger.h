// Logs a run to an MLflow server: rank 0's numbers, params, tags, and how it ended. One thread of
// its own sends; training never waits for it. While the server is away, up to kMlflowPointsMax
// values wait, and the oldest of more are dropped and counted. Requests are repeated without harm:
// a server keeps equal values once.
//
// A run of MLflow belongs to a run of ours by a tag, so that a resumed run goes on in it. On a
// resume, the newest values of the report log are sent again: some may not have been sent when the
// earlier launcher ended.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "launcher/cluster/links/run_identity.h"
#include "launcher/cluster/mlflow/mlflow_api.h"
#include "launcher/report/summary.h"
#include "lib/http_client/http_client.h"
#include "lib/observe/report_sink.h"

namespace train {

inline constexpr std::size_t kMlflowPointsMax = 10'000;  // that wait
inline constexpr Duration kMlflowSendEvery = seconds(1);
inline constexpr Duration kMlflowRequestMax = seconds(30);
inline constexpr Duration kMlflowFirstPause = milliseconds(500);
inline constexpr Duration kMlflowPauseMax = seconds(30);
inline constexpr const char* kMlflowRunTag = "trainrun.run_id";

struct MlflowRun {
  std::string run_id = {}, name = {};  // of ours
  MlflowTexts params = {}, tags = {};
};

struct MlflowEnd {
  std::string_view status = "FINISHED";
  std::string note = {};                          // Markdown
  std::map<std::string, std::string> files = {};  // by name
};

/// Return how our run is to be known there. `run`: of ours.
MlflowRun mlflow_run(const JobSpec& spec, const RunIdentity& run);
/// Return what to log of the run's end; none if another launcher goes on with it.
std::optional<MlflowEnd> mlflow_end(const RunSummary& summary, const std::string& shown_spec);

class MlflowLogger {
 public:
  /// `say`: tells the user what failed, once until it works again. Called on a thread of this
  /// object. `ask`: empty to load libtrainrun_http.so.
  MlflowLogger(MlflowOptions options, MlflowRun run, std::function<void(const std::string&)> say,
               AskHttp ask = {});
  ~MlflowLogger();  // gives up what is still to be sent

  /// Take in a report of an earlier launcher. Call this for all of them, in order, before begin().
  void earlier(const ReportRecord& report);
  void begin();
  /// Take in reports; only those of rank 0 count. Never waits.
  void add(std::span<const ReportRecord> reports);
  /// Send all that is left, then how the run has ended; nothing after the deadline. `end`: none if
  /// the run goes on elsewhere. Returns at once.
  void end_by(TimePoint deadline, std::optional<MlflowEnd> end);
  /// Wait for that. Blocks until the deadline at most.
  void wait();
  /// Return the sink that passes on reports; this object outlives it.
  std::unique_ptr<ReportSink> sink();

 private:
  struct Batch {
    std::vector<MlflowPoint> points;
    bool last = false;
  };
  void run();
  bool set_up();
  Result<std::string> find_experiment();
  Result<Unit> find_run(const std::string& experiment);
  Result<Unit> make_run(const std::string& experiment);
  Result<Unit> take_run(const boost::json::object& run);
  Result<Unit> put_texts(MlflowTexts params, MlflowTexts tags);
  Batch next_batch();
  void send(const std::vector<MlflowPoint>& points);
  void send_end(const MlflowEnd& end);
  /// Repeat a call until it succeeds, fails for good, or time is up.
  Result<Unit> insist(const std::function<Result<Unit>()>& once);
  Result<boost::json::object> get(const std::string& what);
  Result<boost::json::object> post(const std::string& what, std::string body);
  Result<boost::json::object> ask_once(WebRequest request);
  void add_points(const ReportRecord& report);
  void failed(const std::string& text);
  bool over() const;
  bool pause(Duration time);

  const MlflowOptions options_;
  const MlflowRun run_;
  const std::function<void(const std::string&)> say_;
  AskHttp ask_;
  // Of the thread only:
  std::string mlflow_run_, artifacts_;
  bool failure_told_ = false;
  std::size_t refused_ = 0;
  std::int64_t started_ms_ = 0;

  mutable std::mutex mutex_;  // protects all below
  std::condition_variable changed_;
  std::deque<MlflowPoint> queue_;
  std::int64_t step_ = 0;  // rank 0's reports so far, of all attempts
  std::size_t dropped_ = 0;
  bool counts_drops_ = false;
  bool ending_ = false, done_ = false;
  TimePoint deadline_ = TimePoint::max();
  std::optional<MlflowEnd> end_;
  std::thread thread_;
};

}  // namespace train
