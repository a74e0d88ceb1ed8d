// The processes that wait for another run: workers of this supervisor that stay, and those that it
// has handed on to itself when it began anew (processes/execute_anew.h), which are on standby until
// a rank takes them. Main thread only.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "daemon/supervisor/limits/confinement.h"
#include "daemon/supervisor/processes/standby_processes.h"
#include "daemon/supervisor/workers/worker_runner.h"
#include "daemon/supervisor/workers/worker_slot.h"
#include "lib/base/file_descriptor.h"
#include "lib/net/notifier.h"
#include "lib/wire/daemon_messages.h"

namespace train {

class WaitingWorkers {
 public:
  struct Parts {
    const std::map<Rank, WorkerSlot>& slots;
    StandbyProcesses& standbys;
    const WorkerRunner& runner;
    const Confinement& confinement;
    Notifier& changed;
    const Clock& clock;
  };
  explicit WaitingWorkers(Parts parts) : parts_(parts) {}

  /// Take over what was handed on in this file. Return the bytes of the link to traind that nobody
  /// has handled.
  Result<std::string> take(FileDescriptor file);
  /// Return what this supervisor has said of itself before it began anew.
  const SupervisorHello& known() const { return known_; }
  /// Return how many processes were handed on and live; of no use once ranks have taken them.
  std::uint32_t count();
  /// Return whether they have loaded another version of the job's code than this one.
  bool have_other(const std::string& code) const { return handed_on_ > 0 && code != code_; }

  /// Return what to hand on: those of this supervisor's workers that stay.
  KeptWorkers to_hand_on(SupervisorHello known, std::string code, std::string unread) const;

  /// How long end() waits for them.
  void set_patience(std::int64_t ms);
  /// Tell them that there is no other run, and let them end by themselves, as long as our patience
  /// lasts. Kill those that this supervisor has started; those on standby are left to it.
  asio::awaitable<void> end();

 private:
  std::size_t left();

  const Parts parts_;
  SupervisorHello known_;
  std::size_t handed_on_ = 0;
  std::string code_;  // that they have loaded
  Duration patience_ = seconds(5);
};

}  // namespace train
