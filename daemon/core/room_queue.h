// The queue of a node: what it keeps for runs that wait for room, and for the next attempts of
// those that have workers. A run is offered what is left of the free resources once the runs before
// it have theirs. Pure.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "lib/model/resources.h"
#include "lib/wire/daemon_messages.h"

namespace train {

using ClaimedByRun = std::map<std::string, Resources>;

class RoomQueue {
 public:
  /// Keep what the run asks for, in place of what it asked for before. Return whether that changes
  /// anything.
  bool claim(const std::string& run_id, const ClaimRoom& claim);
  /// Keep nothing for the run. Return whether that changes anything.
  bool forget(const std::string& run_id) { return claims_.erase(run_id) > 0; }
  /// Return the run's claim, or none.
  const ClaimRoom* find(const std::string& run_id) const;

  /// Return what the run may use of `unclaimed`, which is what no other run has. `claimed` is what
  /// each run has here: of its room, only the rest is kept.
  Resources free_for(const std::string& run_id, const Resources& unclaimed,
                     const ClaimedByRun& claimed) const;
  /// Return whether something is kept for the run, beside what it has.
  bool keeps(const std::string& run_id, const ClaimedByRun& claimed) const;
  /// Return what those runs want on all nodes that wait before this one, leaving shares aside, for
  /// which something is kept here, and that are `among`: cores and GPUs.
  Resources wanted_before(const std::string& run_id,
                          const std::function<bool(const std::string&)>& among) const;
  /// Return whether room is kept for another run that asks for this GPU by name.
  bool is_wanted(const std::string& gpu, const std::string& uuid,
                 const std::string& by_others_than) const;

 private:
  static Resources kept_for(const std::string& run_id, const ClaimRoom& claim,
                            const ClaimedByRun& claimed);

  std::map<std::string, ClaimRoom> claims_;  // by run
};

}  // namespace train
