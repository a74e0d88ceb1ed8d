// Decides for one node: which run holds a lease with which generation, which of the node's
// resources are claimed, and which supervisors live. Events come in, actions go out. Once the lease
// is good, the shell passes frames between launcher and supervisor without this class.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "lib/base/error.h"
#include "lib/base/ids.h"
#include "lib/base/time.h"
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
struct LauncherDetached {
  LinkId link = 0;
};  // said DetachRun: the run is over
struct LauncherLinkClosed {
  LinkId link = 0;
};  // closed, reset, or silent past dead_after
struct AttemptAsked {
  LinkId link = 0;
  Attempt attempt;
  PrepareAttempt message;
};
struct AdoptionBegun {};  // after our own restart: we call a supervisor that may still live
struct AdoptionEnded {};  // it answered (SupervisorUp came before), or it is dead
struct SupervisorUp {
  AttemptKey key;
  SupervisorHello message;
};  // spawned by us, or found again after our own restart
struct SupervisorDown {
  AttemptKey key;
  std::string reason;
};
struct AttemptLeftoversReaped {
  AttemptKey key;
};  // nothing that its supervisor left lives any more: the answer to ReapAttemptLeftovers
struct DrainAsked {
  std::string reason;
};                       // leave gracefully; if asked again, tell everybody again
struct DrainExpired {};  // its grace is over; the second time: so is the time for stopping
using NodeEvent = std::variant<LauncherAttached, LauncherDetached, LauncherLinkClosed, AttemptAsked,
                               AdoptionBegun, AdoptionEnded, SupervisorUp, SupervisorDown,
                               AttemptLeftoversReaped, DrainAsked, DrainExpired>;

// ---- actions
struct RefuseLink {
  LinkId link = 0;
  Error error;
};  // tell, then close
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
  PrepareAttempt message;  // with what is granted
  std::int64_t orphan_timeout_ms = 0;
};
struct SendPrepare {
  AttemptKey key;
  PrepareAttempt message;
};  // its supervisor lives: it may not have heard the first time, or was started for standby
struct RefuseAttempt {
  LinkId link = 0;
  Attempt attempt;
  Error error;
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
struct ReapAttemptLeftovers {
  AttemptKey key;
};  // kill whatever it left, then feed AttemptLeftoversReaped
struct TellDraining {
  LinkId link = 0;
  std::string reason;
};  // with the grace that is left
struct StopAttempt {
  AttemptKey key;
  std::string reason;
  bool at_once = false;
};  // as a launcher would
using NodeAction =
    std::variant<RefuseLink, DropLink, SendOffer, SpawnSupervisor, SendPrepare, RefuseAttempt,
                 TellSupervisor, TellAttemptLost, ReapAttemptLeftovers, TellDraining, StopAttempt>;

class NodeAgent {
 public:
  NodeAgent(std::string node_name, std::string host, std::vector<std::string> addresses,
            Resources total);

  std::vector<NodeAction> handle(const NodeEvent& event);

  /// Return the link that holds the lease of a run, or none while the launcher is away.
  std::optional<LinkId> link_of(const std::string& run_id) const;
  /// Return the link that a supervisor's frame goes to. None while the launcher is away, or until
  /// the supervisor has begun to say everything again to a launcher that attached: a launcher that
  /// heard the end before the middle would take it for the whole.
  std::optional<LinkId> route_up(const AttemptKey& key, MessageType type);
  /// Return the run that a link may send frames for, or none for a link without a lease.
  std::optional<std::string> run_of(LinkId link) const;
  /// Return the user that the workers of a run run as (AttachRun.user), or "" for a run without a
  /// lease.
  std::string user_of(const std::string& run_id) const;
  bool idle() const { return runs_.empty() && supervisors_.empty(); }
  /// Return whether the node is draining and nothing is left to wait for.
  bool drained() const { return draining_.has_value() && supervisors_.empty() && adoptions_ == 0; }

 private:
  struct Run {
    std::uint64_t generation = 0;
    std::optional<LinkId> link;
    AttachRun lease;
    std::optional<Attempt> ended =
        {};  // the newest whose supervisor has ended: it is never spawned a second time
    std::optional<AttemptAsked> waiting =
        {};  // for an older attempt's supervisor to end, or for those that may still be found
  };
  struct Supervisor {
    Resources claimed;  // nothing while it stands by
    std::vector<std::int32_t> gpu_ids;
    bool standby = false;                  // its attempt has not begun
    bool in_step = false;                  // what it sends follows on what the launcher has
    bool gone = false;                     // it has said that none of its workers is left
    std::optional<std::string> down = {};  // why it ended; what it left is being killed
  };

  void on(const LauncherAttached&);
  void on(const LauncherDetached&);
  void on(const LauncherLinkClosed&);
  void on(const AttemptAsked&);
  void on(const AdoptionBegun&) { ++adoptions_; }
  void on(const AdoptionEnded&);
  void on(const SupervisorUp&);
  void on(const SupervisorDown&);
  void on(const AttemptLeftoversReaped&);
  void on(const DrainAsked&);
  void on(const DrainExpired&);
  bool stop_older_attempts(const AttemptKey& than);
  static PrepareAttempt granted(PrepareAttempt message, const Supervisor& supervisor);
  void send_offer(const std::string& run_id);
  void send_offers();
  Resources free_for(const std::string& run_id) const;
  std::vector<std::int32_t> free_gpus(const std::string& run_id) const;
  void tell_supervisors(const std::string& run_id, bool present);

  std::string node_name_, host_;
  std::vector<std::string> addresses_;
  Resources total_;
  std::map<std::string, Run> runs_;
  std::map<AttemptKey, Supervisor> supervisors_;
  int adoptions_ = 0;  // under way: what is here is not known yet, so nothing is offered
  std::optional<std::string> draining_;  // why
  bool drain_expired_ = false;
  std::vector<NodeAction> actions_;
};

}  // namespace train
