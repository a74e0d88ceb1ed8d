// A run that a driver follows: what a Trainer does. It reads train-run's events, makes rounds of
// the reports, and tells callbacks.
#pragma once

#include <train/trainer.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sdk/trainer/driver_process.h"
#include "sdk/trainer/report_log.h"
#include "sdk/trainer/warm_group.h"
#include "sdk/trainer/worker_calls.h"

namespace train {

struct Trainer::Impl {
  Impl() = default;
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  struct Listener {
    std::shared_ptr<Callback> callback;
    int failures = 0;  // in a row; kCallbackFailuresMax: switched off
  };
  TrainerOptions options;
  std::vector<std::string> words;  // the job: behind "train-run run"
  // Of a WarmTrainer's run: what else train-run is told, and the workers that stay.
  std::vector<std::string> more_words;
  std::shared_ptr<trainer::WarmGroup> group;
  std::vector<Listener> listeners;

  std::mutex mutex;  // protects process against stop()
  // Shared: after a run whose workers stay, a WarmTrainer holds it, too.
  std::shared_ptr<trainer::DriverProcess> process;
  std::atomic<bool> workers_stay = false;  // train-run holds them, after the run's end
  std::optional<int> code;                 // of train-run
  bool begun = false, followed = false, over = false, told_start = false, told_finish = false;
  std::atomic<bool> stop_asked = false;
  trainer::ReportLog log;
  std::deque<Round> uncommitted;          // told, but their checkpoints are not committed yet
  std::optional<AttemptFailure> failure;  // the newest attempt's
  std::optional<Dict> end;
  std::exception_ptr failed;  // what ended() has thrown
  std::chrono::steady_clock::time_point moved = std::chrono::steady_clock::now();
  bool said_slow = false;
  bool has_workers = false;   // by what was read; `deferred` may not have been handled yet
  std::deque<Dict> deferred;  // came during a call
  /// How the attempt that was called last has ended, as far as was read: the rank that is the root
  /// cause, or kNoRank.
  std::optional<int> ended_by;
  std::int64_t calls = 0;
  int pace = 0;
  std::optional<std::pair<int, std::uint64_t>>
      given;  // attempt and number of an unacknowledged round

  /// Return whether train-run has no more to say of the run.
  bool run_over() const { return workers_stay || process->over(); }
  std::filesystem::path folder() const;
  void stop();
  std::optional<RunResult> result(bool force);
  /// Tell the callbacks of the run's end if nobody has asked for its result; stop it if it goes on.
  void conclude();
  int leave();
  void begin(const StartOptions& start);
  void begin_unless_started(const StartOptions& start = {});
  void acknowledge();
  std::optional<Dict> next_event();
  void read(const Dict& event);
  std::map<int, Value> call(const std::string& name, const Value& argument,
                            const CallOptions& call_options);
  trainer::CallAnswers call_once(const std::string& name, const Value& argument,
                                 const CallOptions& call_options);
  bool may_call_again(const trainer::CallAnswers& answers, bool ends_worker);
  void defer(Dict event);
  void catch_up();
  std::optional<Round> next();
  void handle(const Dict& event);
  void on_attempt(const Dict& event);
  void on_checkpoint(const Dict& event);
  void give_up_checkpoints(std::size_t keep);
  void told(const Round& round);
  void warn_if_slow();
  void check_equal() const;
  template <class Call>
  void tell(const char* what, Call&& call);
  void finish(const std::string& error);
  RunResult ended();
  RunResult result_of_end();
};

}  // namespace train
