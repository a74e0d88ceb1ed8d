// Decides for one node: which run holds a lease with which generation, which of the node's
// resources are claimed, and which supervisors live. Events come in, actions go out. Once a run has
// its lease, the shell passes frames between launcher and supervisor by itself, along the links
// that this class names.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "daemon/core/gpu_grant.h"
#include "daemon/core/past_runs.h"
#include "daemon/core/room_queue.h"
#include "lib/base/cpu_list.h"
#include "lib/base/error.h"
#include "lib/base/ids.h"
#include "lib/base/time.h"
#include "lib/model/cpu_topology.h"
#include "lib/model/labels.h"
#include "lib/wire/daemon_messages.h"

namespace train {

using LinkId = std::uint64_t;  // one accepted connection of a launcher

struct AttemptKey {
  std::string run_id;
  Attempt attempt;
  auto operator<=>(const AttemptKey&) const = default;
};

// ---- events
struct LauncherAttached {
  LinkId link = 0;
  AttachRun message;
};
/// The launcher sent DetachRun: the run is over.
struct LauncherDetached {
  LinkId link = 0;
};
/// The link was closed or reset, or has been silent for longer than dead_after.
struct LauncherLinkClosed {
  LinkId link = 0;
};
struct AttemptAsked {
  LinkId link = 0;
  Attempt attempt;
  PrepareAttempt message;
  GpusInUse gpus_in_use = {};
};
struct RoomClaimed {
  LinkId link = 0;
  ClaimRoom message;
};
/// After our own restart, we have begun to connect to a supervisor that may still live.
struct AdoptionBegun {};
/// The supervisor has answered (SupervisorUp came before), or it is dead.
struct AdoptionEnded {};
/// A supervisor that we spawned, or found again after our own restart, has said hello. It does so
/// again when it begins anew, with the processes of its workers.
struct SupervisorUp {
  AttemptKey key;
  SupervisorHello message;
};
struct SupervisorDown {
  AttemptKey key;
  std::string reason;
};
/// The answer to ReapAttemptLeftovers: nothing that the attempt's supervisor left lives any more.
struct AttemptLeftoversReaped {
  AttemptKey key;
};
/// This node is to leave gracefully. If asked again, tell all launchers again.
struct DrainAsked {
  std::string reason;
};
/// The first time, the grace of the drain is over; the second time, so is the time for stopping.
struct DrainExpired {};
using NodeEvent = std::variant<LauncherAttached, LauncherDetached, LauncherLinkClosed, AttemptAsked,
                               RoomClaimed, AdoptionBegun, AdoptionEnded, SupervisorUp,
                               SupervisorDown, AttemptLeftoversReaped, DrainAsked, DrainExpired>;

// ---- actions
/// Send the launcher a refusal, after which it closes the link.
struct RefuseLink {
  LinkId link = 0;
  Error error;
};
/// Tell the launcher that another one has taken its run over.
struct DropLink {
  LinkId link = 0;
};
struct SendOffer {
  LinkId link = 0;
  NodeOffer offer;
};
struct SpawnSupervisor {
  AttemptKey key;
  LinkId link = 0;
  PrepareAttempt message;  // with the granted resources
  std::int64_t orphan_timeout_ms = 0;
};
/// For a supervisor that lives: it may have missed the first message, or was started for standby.
struct SendPrepare {
  AttemptKey key;
  PrepareAttempt message;
};
/// There is no room for the attempt. If `busy`, that is no failure: there may be again.
struct RefuseAttempt {
  LinkId link = 0;
  Attempt attempt;
  Error error;
  bool busy = true;
};
struct TellSupervisor {
  AttemptKey key;
  LauncherState state;
};
struct TellAttemptLost {
  LinkId link = 0;
  Attempt attempt;
  std::string reason;
  bool standby = false;
};
/// Kill whatever the attempt left, then feed AttemptLeftoversReaped.
struct ReapAttemptLeftovers {
  AttemptKey key;
};
/// Tell the launcher that this node is draining, and how much of the grace is left.
struct TellDraining {
  LinkId link = 0;
  std::string reason;
};
/// Stop the attempt's workers, as a launcher would.
struct StopAttempt {
  AttemptKey key;
  std::string reason;
  bool at_once = false;
};
using NodeAction =
    std::variant<RefuseLink, DropLink, SendOffer, SpawnSupervisor, SendPrepare, RefuseAttempt,
                 TellSupervisor, TellAttemptLost, ReapAttemptLeftovers, TellDraining, StopAttempt>;

/// How much of a node is in use.
struct NodeCounts {
  Resources total = {}, claimed = {};
  int runs = 0;
  int waiting = 0;                   // of the runs: they wait for room
  int supervisors = 0, standby = 0;  // standby: of the supervisors
  bool draining = false;
  bool adopting = false;  // supervisors of an earlier traind are being looked for
};

/// What a node is like, beside its amounts.
struct NodeTraits {
  Labels labels = {};
  std::map<std::string, GpuTraits> gpus = {};  // by name
  CpuTopology topology = {};
  CpuSet allowed = {};  // CPUs that workers may use
};

class NodeAgent {
 public:
  /// `gpus` are the names of the node's GPUs (CUDA_VISIBLE_DEVICES). If `total` has more of them,
  /// the rest are indexes.
  NodeAgent(std::string node_name, std::string host, std::vector<std::string> addresses,
            Resources total, std::vector<std::string> gpus = {}, NodeTraits traits = {});

  std::vector<NodeAction> handle(const NodeEvent& event);

  /// Return the link that holds the lease of a run, or none while the launcher is away.
  std::optional<LinkId> link_of(const std::string& run_id) const;
  /// Return the link that a supervisor's frame goes to. None while the launcher is away. None also
  /// after a launcher attached, until the supervisor begins to send everything again: a launcher
  /// that received the end before the middle would take it for the whole.
  /// `processes_left`: it is a GroupGone, but processes of the group's workers stay.
  std::optional<LinkId> route_up(const AttemptKey& key, MessageType type,
                                 bool processes_left = false);
  /// Return the run that a link may send frames for, or none for a link without a lease.
  std::optional<std::string> run_of(LinkId link) const;
  /// Return the generation of the launcher that holds the lease of a run; 0: there is none.
  std::uint64_t generation_of(const std::string& run_id) const;
  /// Return the user that the workers of a run run as (AttachRun.user), or "" for a run without a
  /// lease.
  std::string user_of(const std::string& run_id) const;
  NodeCounts counts() const;
  /// Return the GPUs of the run's newest attempt here, as its workers see them.
  std::vector<std::string> gpus_of(const std::string& run_id) const;
  /// Return whether no run has anything here, nor any supervisor that may still be found.
  bool idle() const { return runs_.empty() && supervisors_.empty() && adoptions_ == 0; }
  /// Return whether the node is draining and nothing is left to wait for.
  bool drained() const { return draining_.has_value() && supervisors_.empty() && adoptions_ == 0; }

 private:
  struct Run {
    std::uint64_t generation = 0;
    std::optional<LinkId> link;
    AttachRun lease;
    /// The newest attempt whose supervisor has ended. It is never spawned a second time.
    std::optional<Attempt> ended = {};
    /// Waits for an older attempt's supervisor to end, for others that stand by to end, or for
    /// supervisors that may still be found.
    std::optional<AttemptAsked> waiting = {};
    std::optional<NodeOffer> offered = {};  // over its link, last
  };
  struct Supervisor {
    Resources claimed;  // nothing while it stands by
    std::vector<std::string> gpus;
    bool standby = false;  // its attempt has not begun
    bool in_step = false;  // its frames continue what the launcher has received
    bool gone = false;     // it has reported that no process of its workers is left
    std::vector<WorkerBinding> bindings = {};
    std::optional<std::string> down = {};  // why it ended; its leftovers are being killed
  };

  struct Pool {
    ClaimedByRun claimed;
    std::vector<PoolRun> runs;  // in the order of their turns
  };

  void on(const LauncherAttached&);
  void on(const LauncherDetached&);
  void on(const LauncherLinkClosed&);
  void on(const AttemptAsked&);
  void on(const RoomClaimed&);
  void on(const AdoptionBegun&) { ++adoptions_; }
  void on(const AdoptionEnded&);
  void on(const SupervisorUp&);
  void on(const SupervisorDown&);
  void on(const AttemptLeftoversReaped&);
  void on(const DrainAsked&);
  void on(const DrainExpired&);
  void wait(const std::string& run_id, const AttemptAsked& event);
  bool others_stand_by(const AttemptKey& than) const;
  bool stop_older_attempts(const AttemptKey& than);
  static PrepareAttempt granted(PrepareAttempt message, const Supervisor& supervisor);
  void bind(const AttemptKey& key, Supervisor& supervisor, PrepareAttempt& message) const;
  void forget(const std::string& run_id);
  std::string owner_of(const std::string& run_id) const;
  NodeOffer offer_to(const std::string& run_id, const Pool& pool) const;
  void send_offer(const std::string& run_id);
  void send_offer(const std::string& run_id, NodeOffer offer);
  void send_offers(const std::string& but_to = "");
  ClaimedByRun claimed() const;
  Pool pool() const;
  Resources unclaimed_by_others(const std::string& run_id) const;
  Resources free_for(const std::string& run_id) const;
  std::vector<PoolRun> runs_before(const std::string& run_id, const Pool& pool) const;
  std::string kept_before(const std::string& run_id) const;
  std::set<std::string> held_gpus(const std::string& run_id) const;
  std::set<std::string> preferred_gpus(const AttemptKey& key, bool standby) const;
  std::vector<std::string> free_gpus(const AttemptKey& key, bool standby) const;
  void tell_supervisors(const std::string& run_id, bool present);

  std::string node_name_, host_;
  std::vector<std::string> addresses_;
  Resources total_;
  std::vector<std::string> gpus_;  // total_.gpu of them, as CUDA_VISIBLE_DEVICES names them
  NodeTraits traits_;
  std::map<std::string, Run> runs_;
  PastRuns past_;
  RoomQueue queue_;
  std::map<AttemptKey, Supervisor> supervisors_;
  int adoptions_ = 0;  // in progress: it is not known yet what is free, so nothing is offered
  std::optional<std::string> draining_;  // why
  bool drain_expired_ = false;
  std::vector<NodeAction> actions_;
};

}  // namespace train
