// A worker under a supervisor: turns calls into frames and waits for answers. One mutex guards all
// state; the link's thread takes it only to pick up what to send and to handle a received frame,
// never while it sends.
#pragma once

#include <condition_variable>
#include <deque>
#include <optional>
#include <set>

#include "lib/base/metrics.h"
#include "lib/wire/codec.h"
#include "sdk/client/checkpoint_gate.h"
#include "sdk/client/checkpoint_stager.h"
#include "sdk/client/memory/memory_profiler.h"
#include "sdk/client/report_queue.h"
#include "sdk/client/served_calls.h"
#include "sdk/client/stop_gate.h"
#include "sdk/client/supervisor_link.h"
#include "sdk/client/worker_session.h"

namespace train::sdk {

/// Convert the welcome to what the SDK's parts read. Throws Failure for invalid JSON.
WorkerInfo to_worker_info(const Welcome& welcome);

class SupervisedSession final : public WorkerSession {
 public:
  explicit SupervisedSession(JoinedSocket joined);
  ~SupervisedSession() override;

  void report(const Dict& metrics, const Checkpoint* checkpoint) override;
  std::optional<std::filesystem::path> wait_for_checkpoint() override;
  std::vector<AnsweredCheckpoint> reported_checkpoints(bool validated,
                                                       std::chrono::milliseconds timeout) override;
  bool should_stop() const override;
  bool checkpoint_requested() override;
  void run_calls() override {
    if (calls_.waiting()) (void)calls_.run();
  }
  std::size_t poll(std::chrono::milliseconds wait) override;
  std::vector<std::string> all_gather(const std::string& name, const std::string& mine,
                                      std::chrono::milliseconds timeout) override;
  void once_per_node(const std::string& name, const std::function<void()>& f) override;
  IngestRoster ingest_roster() const override;
  void ingest_up(const std::string& flight) override;
  void ingest_busy(const IngestFigures& figures) override;
  std::stop_token ingest_stop() const override { return ingest_stop_.get_token(); }
  void set_result(std::string json) override;
  void send_error(const UserError& error) override;
  void flush(std::chrono::milliseconds within) override;
  void finish() override;
  bool finish_and_stay() override;
  void abandon_in_fork_child() override;

 private:
  using Lock = std::unique_lock<std::mutex>;
  struct Outgoing {  // sent once all reports up to `after` are
    Frame frame;
    std::uint64_t after = 0;
  };
  struct OnceCall {
    enum class State { Asked, Answered, Done } state = State::Asked;
    OnceReply reply;
    std::thread::id runner;  // while f runs here
  };

  bool end(bool stays);

  // reports
  std::uint64_t queue_report(Lock& lock, std::string_view packed);
  void report_with_checkpoint(const Metrics& metrics, std::string_view packed,
                              const Checkpoint& checkpoint);
  std::uint64_t begin_checkpoint(Lock& lock);
  void add_checkpoint_job(const Checkpoint& checkpoint, CheckpointStaged staged,
                          const Metrics& metrics);
  void wait_at_gate(Lock& lock, const Metrics& metrics);
  void keep_pace(Lock& lock, const Metrics& metrics, std::uint64_t report_seq);
  void make_stop_checkpoint(Lock& lock, const Metrics& metrics, std::uint64_t report_seq,
                            std::uint64_t request);
  void wait_for_checkpoint_order(Lock& lock);
  // others
  void push_answer(ServedCalls::Answer answer);
  OnceReply ask_once(Lock& lock, const std::string& name);
  void check_trains() const;
  void check_usable() const;
  void push(Frame frame);
  template <class Message>
  void push_message(const Message& message) {
    push(encode(message, attempt_));
  }
  // on the link's thread
  void fill(std::string& out);
  Result<Unit> on_frame(const Frame& frame);
  Result<Unit> on_pause(const PauseWorkers& message);
  Result<Unit> on_request_checkpoint(const RequestCheckpoint& message);
  void on_outcome(CheckpointOutcome message);
  void on_once_reply(OnceReply message);
  void on_call(CallWorkers message);
  void on_take_memory_profile(const TakeMemoryProfile& message);

  const Attempt attempt_;
  const std::uint32_t report_window_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // answers, room in the queue, steps of a stop, the link's end
  ReportQueue queue_;
  std::uint64_t acknowledged_ = 0;  // the report_seq
  std::deque<Outgoing> outgoing_;
  std::optional<std::string> unsent_result_;
  bool link_sleeps_ = false;           // only wake() wakes it
  std::optional<std::string> closed_;  // why nothing can be sent any more
  StopGate gate_;
  CheckpointGate checkpoint_gate_;
  std::uint64_t checkpoint_calls_ = 0;    // of checkpoint_requested()
  std::uint64_t checkpoint_request_ = 0;  // what the next report with a checkpoint answers; 0: none
  std::atomic<bool> stopping_ = false;    // gate_.stopping(), without the mutex
  mutable std::atomic<bool> told_to_stop_ = false;  // should_stop() has returned true
  std::uint64_t last_checkpoint_report_seq_ = 0;
  bool stop_checkpoint_made_ = false;
  std::thread::id stop_maker_;
  std::optional<std::uint64_t> arrived_at_;  // the report at which we reached the gate's target
  std::optional<WorkerPaused> announced_;    // the last one
  std::mutex checkpoint_order_;  // taken before mutex_: one report with a checkpoint at a time
  std::uint64_t checkpoint_seq_ = 0;
  std::set<std::uint64_t> unresolved_;  // checkpoints without an outcome
  CheckpointOutcome newest_outcome_;
  std::uint64_t collective_sequence_ = 0;
  std::map<std::uint64_t, std::optional<CollectiveResult>> collectives_;
  std::uint64_t ask_request_ = 0;
  std::map<std::uint64_t, std::optional<ReportedCheckpoints>> asks_;  // by request
  std::map<std::string, OnceCall> once_;
  IngestRoster roster_;           // the newest
  std::stop_source ingest_stop_;  // of an ingest worker
  bool goodbye_sent_ = false, goodbye_acked_ = false;
  ServedCalls calls_;
  std::unique_ptr<CheckpointStager> stager_;
  std::unique_ptr<MemoryProfiler> profiler_;
  std::unique_ptr<SupervisorLink> link_;  // last: its thread uses all of the above
};

}  // namespace train::sdk
