// Passes report batches to the report log and the other sinks on its own thread. It decodes,
// writes, syncs in groups, and only then acknowledges. The driver's thread hands in batches, and
// gets news back through `post`.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "launcher/core/run_events.h"
#include "launcher/core/sequence_tracker.h"
#include "lib/observe/metrics_log.h"
#include "lib/observe/report_sink.h"
#include "lib/observe/stop_rules.h"
#include "lib/wire/attempt_messages.h"

namespace train {

/// Rank 0's metrics under earlier launchers: the newest, and those of the living attempt's reports
/// with a checkpoint, which may not be committed yet.
struct EarlierReports {
  Metrics newest;
  std::map<std::pair<Attempt, std::uint64_t>, Metrics> with_checkpoint;  // by report_seq
};
/// Read the log. Show its reports to `stop`, and those of rank 0 to `each`, too.
Result<EarlierReports> earlier_reports(
    const std::string& metrics_log, const std::optional<LivingAttempt>& living, StopRules& stop,
    const std::function<void(const ReportRecord&)>& each = [](const ReportRecord&) {});

class ReportPipeline {
 public:
  struct News {
    std::vector<ReportRecord> shown;  // rank 0's, for the screen: all, or the newest of many
    std::vector<ReportRecord> with_checkpoint;        // rank 0's with a checkpoint, for its metrics
    std::vector<std::pair<Attempt, ReportAck>> acks;  // on disk now
    std::optional<std::string> stop;                  // the stop rule that is met
    std::vector<std::string> warnings;                // a sink failed, a batch could not be read
    std::uint64_t flushed = 0;                        // the n-th call of flush() is done
    std::optional<std::uint64_t> logged;              // so many bytes of the log are on disk
  };

  /// `last_metrics`: rank 0's newest metrics under earlier launchers. `adopted`: an earlier
  /// launcher's attempt that may live.
  ReportPipeline(MetricsLog log, std::vector<std::unique_ptr<ReportSink>> sinks, StopRules stop,
                 std::function<void(News)> post, Metrics last_metrics = {},
                 std::optional<Attempt> adopted = {});
  ~ReportPipeline();  // writes and syncs what is left

  /// Take in a batch. Repeated reports are dropped here and acknowledged again. So, however often a
  /// link breaks, no more waits for the disk than workers hold unacknowledged.
  void add(Attempt attempt, ReportBatch batch);
  std::size_t queued_bytes() const;
  /// Ask for everything added so far to be put on disk; News.flushed tells when it is.
  std::uint64_t flush();
  /// Return rank 0's newest metrics so far.
  Metrics last_metrics() const;
  /// End the thread. Call end_warnings() only after this.
  void finish();
  /// Return warnings for the end of the run, of the stop rules and of the sinks.
  std::vector<std::string> end_warnings() const;

 private:
  struct Item {
    Attempt attempt = {};
    ReportBatch batch = {};
    std::uint32_t known = 0;  // how many at its front are already known
    std::uint64_t flush = 0;  // or a request to flush
  };
  /// A sink, and how it did since the last sync.
  struct Output {
    std::unique_ptr<ReportSink> sink;
    bool asked = false;                // to take reports
    std::optional<Error> failed = {};  // its first failure
    bool told = false;                 // that it fails; until it takes reports again
  };
  /// The work that is taken under one lock of the mutex.
  struct Work {
    std::deque<Item> items;
    std::set<std::string> warnings;
    bool acknowledge = false;  // for reports that arrived again
    bool empty() const { return items.empty() && warnings.empty() && !acknowledge; }
  };
  void run();
  void take(Item& item, News& news);
  void sync(News& news);
  void log_failed(const Error& error, News& news);
  void flush_outputs(News& news);
  void written(const Item& item);

  MetricsLog log_;
  std::vector<Output> outputs_;
  StopRules stop_;
  std::function<void(News)> post_;
  bool log_failure_told_ = false;
  bool keeps_histograms_ = false;  // some output does
  bool histograms_refused_told_ = false;
  bool unsynced_ = false;  // the newest sync failed

  mutable std::mutex mutex_;  // protects all below
  std::condition_variable wake_;
  std::map<Attempt, SequenceTracker> sequences_;
  Work work_;
  std::uint64_t flush_count_ = 0;
  bool finishing_ = false;
  Metrics last_metrics_;
  std::thread thread_;
};

}  // namespace train
