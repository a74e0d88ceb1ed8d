// One worker's session: implements the public functions, under a supervisor (supervised_session.h)
// or without one (solo_session.h). Any thread may make any call; they throw Failure or Stopped as
// the public functions do.
#pragma once

#include <train/checkpoint.h>
#include <train/report.h>

#include <atomic>
#include <map>
#include <mutex>
#include <stop_token>

#include "lib/model/ingest_roster.h"
#include "lib/model/user_error.h"
#include "lib/wire/attempt_messages.h"
#include "sdk/client/session.h"

namespace train::sdk {

struct IngestFigures;

class WorkerSession {
 public:
  explicit WorkerSession(WorkerInfo info) : info_(std::move(info)) {}
  virtual ~WorkerSession() = default;

  const WorkerInfo& info() const { return info_; }

  virtual void report(const Dict& metrics, const Checkpoint* checkpoint) = 0;
  virtual std::optional<std::filesystem::path> wait_for_checkpoint() = 0;
  virtual std::vector<AnsweredCheckpoint> reported_checkpoints(
      bool validated, std::chrono::milliseconds timeout) = 0;
  virtual bool should_stop() const = 0;
  virtual bool checkpoint_requested() = 0;
  /// Run the calls that wait for the loop (train/serve.h). Cheap if there are none.
  virtual void run_calls() {}
  /// See train::poll().
  virtual std::size_t poll(std::chrono::milliseconds wait);
  virtual std::vector<std::string> all_gather(const std::string& name, const std::string& mine,
                                              std::chrono::milliseconds timeout) = 0;
  virtual void once_per_node(const std::string& name, const std::function<void()>& f) = 0;
  /// Return which ingest workers serve this attempt's ranks now; none without ingest workers.
  virtual IngestRoster ingest_roster() const { return {}; }
  /// Of an ingest worker: see IngestService. Others throw Failure.
  virtual void ingest_up(const std::string& flight);
  virtual void ingest_busy(const IngestFigures& figures);
  virtual std::stop_token ingest_stop() const { return {}; }
  virtual void set_result(std::string json) = 0;
  virtual void send_error(const UserError& error) = 0;
  /// Wait until everything queued is sent, for at most `within`. For a process that is about to
  /// die.
  virtual void flush(std::chrono::milliseconds within) = 0;
  /// Finish the checkpoints being written, hand everything over, and say goodbye. Later calls of
  /// the session fail. Never throws: it reports on stderr what could not be handed over. Calling it
  /// again does nothing.
  virtual void finish() = 0;
  /// Do the same, and tell the supervisor that this process waits for another run. Return whether
  /// it may: not if the run does not keep its workers, or nobody has heard of it.
  virtual bool finish_and_stay() {
    finish();
    return false;
  }
  /// Tell the session that it is now in the child of a fork.
  virtual void abandon_in_fork_child() = 0;

  void on_stop(std::function<Checkpoint()> make);
  /// Keep a histogram for the next report, in place of an earlier one of this name.
  void add_histogram(const std::string& name, const Histogram& histogram);
  void set_data_position(const std::string& dataset, const DataPosition& position);
  void set_preprocessors(const std::string& dataset, std::string fitted);
  /// Keep the positions in the metadata of the checkpoint that this attempt starts from, for the
  /// datasets that it has not read yet.
  void restore_data_positions(const Dict& metadata);

 protected:
  std::function<Checkpoint()> stop_function() const;
  /// Return the spec's metadata, the checkpoint's own, and the datasets' positions as they are now,
  /// as JSON. Throws Failure when a manifest cannot hold it.
  std::string metadata_json(const Checkpoint::Impl& checkpoint) const;
  /// Move the histograms that wait into a packed report.
  void take_histograms(std::string& report);

 private:
  Dict data_positions() const;

  const WorkerInfo info_;
  mutable std::mutex base_mutex_;
  std::function<Checkpoint()> on_stop_;
  std::map<std::string, std::string> histograms_;  // by name, packed; wait for the next report
  std::size_t histogram_bytes_ = 0;
  std::atomic<bool> histograms_wait_ = false;           // without the mutex
  std::map<std::string, DataPosition> data_positions_;  // by dataset
  std::map<std::string, std::string> preprocessors_;    // by dataset
  Dict restored_positions_;  // of datasets that this attempt may not have read yet
};

/// Return this process's session, which the first call makes. Throws Failure when the supervisor
/// cannot be joined (again on each call), and in the child of a fork.
WorkerSession& current_session();
/// Return this process's session; null when there is none yet, or when this is the child of a fork.
WorkerSession* existing_session();

inline constexpr std::size_t kCollectiveBytesMax = 64u << 10;  // of one rank's part
inline constexpr std::size_t kCollectiveNameBytesMax = 4u << 10;
inline constexpr std::size_t kResultBytesMax = 1u << 20;
inline constexpr std::size_t kMetadataBytesMax = 1u << 20;  // of a checkpoint, as JSON
/// Nested dicts and lists of a checkpoint's metadata, and of a result. Boost.JSON reads 32 levels,
/// of which the manifest, or exit.json, needs one.
inline constexpr int kDepthMax = 31;
inline constexpr std::size_t kErrorBytesMax = 1u << 20;  // of each text about an exception

/// Return a result as JSON. Throws Failure when it is nested so deeply that exit.json could not be
/// read again.
std::string result_json(const Value& value);
/// Return the result of a call (train/serve.h) as JSON. Throws Failure when nobody could read it.
std::string call_json(const Value& value);
/// Throw Failure when a part of a collective call is too large to send.
void check_collective(const std::string& name, const std::string& mine);

}  // namespace train::sdk
