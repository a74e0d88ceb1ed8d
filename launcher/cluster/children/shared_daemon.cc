#include "launcher/cluster/children/shared_daemon.h"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "lib/base/time.h"

namespace train {
namespace {

constexpr Duration kEndMax = seconds(5);
constexpr int kFailuresMax = 3;

}  // namespace

// Without supervisors, that of an earlier driver is about to leave.
Result<Unit> SharedDaemon::open() {
  if (!ours_.empty()) {
    daemon_ = PrivateDaemon::at(ours_);
    if (!daemon_)
      return Error{Errc::NotFound, fmt::format("the folder {} is gone", ours_),
                   "go on with the sweep by train-run resume"};
    if (daemon_->ended()) return start();
    daemon_->remember(note_);
    return Unit{};
  }
  daemon_ = PrivateDaemon::find(note_);
  if (daemon_ && !daemon_->has_supervisors()) {
    wait_for_its_end();
    daemon_ = PrivateDaemon::find(note_);
  }
  if (!daemon_) {
    PrivateDaemon::clean_up_lost(note_);
    daemon_.emplace();
  }
  daemon_->stay_while_we_live();
  if (daemon_->ended()) return start();
  daemon_->remember(note_);
  return Unit{};
}

Result<Unit> SharedDaemon::start() {
  TRY_VOID(daemon_->start());
  daemon_->remember(note_);
  return Unit{};
}

Result<Unit> SharedDaemon::look() {
  if (!daemon_->ended()) return Unit{};
  if (daemon_->failures() < kFailuresMax) return start();
  const Error why = daemon_->last_error();
  return Error{Errc::Unavailable, "the traind that the runs share cannot start: " + why.message,
               why.hint};
}

void SharedDaemon::leave() {
  if (!ours_.empty()) return;  // it leaves after us
  daemon_->leave_with_its_runs();
  wait_for_its_end();
}

void SharedDaemon::wait_for_its_end() {
  const TimePoint until = std::chrono::steady_clock::now() + kEndMax;
  while (!daemon_->ended() && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(milliseconds(10));
}

}  // namespace train
