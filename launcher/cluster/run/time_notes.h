// Writes down what the time of the workers was used for, into goodput.json of the current attempt:
// for `train-run status`, and for a launcher that takes the run over. Main thread; it writes on the
// disk thread.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <memory>

#include "launcher/core/run_controller.h"
#include "lib/net/task.h"
#include "lib/storage/run_folder.h"

namespace train {

class TimeNotes {
 public:
  /// All of these outlive the disk thread.
  TimeNotes(const Clock& clock, asio::thread_pool& disk, RunFolder folder,
            const RunController& controller)
      : clock_(clock), disk_(disk), folder_(std::move(folder)), controller_(controller) {}

  /// Write every few seconds while an attempt runs, until the scope cancels this.
  asio::awaitable<void> run();
  /// Write the attempt's final accounts.
  void attempt_ended(const AttemptEnded& ended);

 private:
  void write(Attempt attempt, const TimeAccounts& of_attempt);

  const Clock& clock_;
  asio::thread_pool& disk_;
  const RunFolder folder_;
  const RunController& controller_;
  /// Writes that the disk thread has not done yet: storage that hangs gets no more of them.
  std::shared_ptr<std::atomic<int>> writing_ = std::make_shared<std::atomic<int>>(0);
};

/// Return what an earlier launcher wrote down of this attempt; none if it wrote nothing.
std::optional<NotedTime> read_time_note(const RunFolder& folder, const LivingAttempt& living);

}  // namespace train
