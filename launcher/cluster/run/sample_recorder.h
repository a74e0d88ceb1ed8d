// Keeps what nodes tell about themselves and the run's ranks in the run's folder: samples.jsonl and
// the newest values (lib/storage/FORMAT.md, section 9). Main thread only; it writes on threads of
// its own, one at a time. While storage does not answer, it keeps the newest values only.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "launcher/core/run_events.h"
#include "launcher/report/data_verdict.h"
#include "launcher/report/gpu_troubles.h"
#include "launcher/report/user_messages.h"
#include "lib/net/task.h"
#include "lib/samples/data_collector.h"
#include "lib/samples/node_collector.h"
#include "lib/samples/rank_collector.h"
#include "lib/samples/sample_log.h"
#include "lib/storage/run_folder.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/daemon_messages.h"

namespace train {

class SampleRecorder {
 public:
  using OnDataBound = std::function<void(const DataBoundWatch::Change&)>;
  /// The first two outlive this object. `on_data_bound` is called when it is to be said that the
  /// run waits for data, or no longer.
  SampleRecorder(const Clock& clock, UserMessages& messages, const RunFolder& folder,
                 OnDataBound on_data_bound);

  /// Remember which workers have which GPUs, in a job of several roles.
  void placed(const Placement& placement, const ScalingConfig& scaling,
              const std::vector<std::string>& node_names);
  /// Take what the supervisor on a node says. `taken_us`: see WorkerSamples.
  void sampled(const std::string& node, std::int64_t taken_us, const RanksSampled& event);
  /// Take what a supervisor says of its workers' datasets.
  void data_sampled(Attempt attempt, const DataSamples& message);
  void ended(Attempt attempt, Rank rank);
  /// Take what a node's traind says. Return what is to be said of the run's GPUs there.
  std::vector<std::string> node_told(const std::string& node, NodeStatus status);

  /// Return whether the run was data-bound, in all of its time under this launcher.
  std::optional<DataVerdict> whole_run() const;

  /// Write each second until the flow is cancelled.
  asio::awaitable<void> run();
  /// Return what is still to be written when the run has ended: also what datasets did in all of
  /// its time, in place of their newest values. It blocks; any thread may do it.
  std::function<void()> last_write() const;

 private:
  /// The ranks of a role on a node, and which of its granted GPUs are theirs.
  struct GpuUsers {
    std::vector<std::int32_t> ranks = {};
    GrantedGpus gpus = {};
  };
  struct Files;
  /// What one second adds.
  struct Second {
    std::vector<SampleTable> kept = {}, newest = {};
  };
  Second take();
  void add_data(Second& second, TimePoint now, std::int64_t wall_ms);
  static Result<Unit> write(Files& files, Second second);

  const Clock& clock_;
  UserMessages& messages_;
  RankCollector ranks_;
  NodeCollector nodes_;
  DataCollector data_;
  DataBoundWatch data_bound_;
  const OnDataBound on_data_bound_;
  std::map<std::string, std::vector<GpuUsers>> gpu_users_;  // by node; none: all share all
  GpuTroubles troubles_;
  std::shared_ptr<Files> files_;  // also of the thread that writes
  TimePoint next_newest_{}, next_nodes_{};
  bool warned_ = false;
};

}  // namespace train
