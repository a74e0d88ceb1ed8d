// Keeps what nodes tell about themselves and the run's ranks in the run's folder: samples.jsonl and
// the newest values (lib/storage/FORMAT.md, section 9). Main thread only; it writes on threads of
// its own, one at a time. While storage does not answer, it keeps the newest values only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "launcher/core/run_events.h"
#include "launcher/report/gpu_troubles.h"
#include "launcher/report/user_messages.h"
#include "lib/net/task.h"
#include "lib/samples/node_collector.h"
#include "lib/samples/rank_collector.h"
#include "lib/samples/sample_log.h"
#include "lib/storage/run_folder.h"
#include "lib/wire/daemon_messages.h"

namespace train {

class SampleRecorder {
 public:
  /// Both outlive this object.
  SampleRecorder(const Clock& clock, UserMessages& messages, const RunFolder& folder);

  /// Take what the supervisor on a node says. `taken_us`: see WorkerSamples.
  void sampled(const std::string& node, std::int64_t taken_us, const RanksSampled& event);
  void ended(Attempt attempt, Rank rank) { ranks_.ended(attempt, rank); }
  /// Take what a node's traind says. Return what is to be said of the run's GPUs there.
  std::vector<std::string> node_told(const std::string& node, NodeStatus status);

  /// Write each second until the flow is cancelled.
  asio::awaitable<void> run();
  /// Return what is still to be written when the run has ended. It blocks; any thread may do it.
  std::function<void()> last_write() const;

 private:
  struct Files;
  /// What one second adds.
  struct Second {
    std::vector<SampleTable> kept = {}, newest = {};
  };
  Second take();
  static Result<Unit> write(Files& files, Second second);

  const Clock& clock_;
  UserMessages& messages_;
  RankCollector ranks_;
  NodeCollector nodes_;
  GpuTroubles troubles_;
  std::shared_ptr<Files> files_;  // also of the thread that writes
  TimePoint next_newest_{}, next_nodes_{};
  bool warned_ = false;
};

}  // namespace train
