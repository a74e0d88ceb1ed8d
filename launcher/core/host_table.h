// The nodes of one attempt: how far starting has come on each, and whether anybody is left there.
// Facts, and the questions that starting, attaching and tearing down ask of them; what follows is
// decided by RunController.
#pragma once

#include <map>
#include <optional>
#include <variant>

#include "launcher/core/placement.h"
#include "launcher/core/run_events.h"

namespace train {

class HostTable {
 public:
  HostTable() = default;
  /// Each is asked to prepare.
  explicit HostTable(const Placement& placement);
  /// Of an attempt that an earlier launcher began: prepared, and to be looked for.
  static HostTable adopted(const Placement& placement);

  bool has(NodeId node) const { return hosts_.contains(node); }
  /// Precondition: has(node).
  const PlacedNode& placed(NodeId node) const { return hosts_.at(node).placed; }

  // ---- starting
  void prepared(NodeId node);
  bool is_prepared(NodeId node) const;
  bool all_prepared() const;
  /// It is ordered to start its workers, unless it has.
  void ordered(NodeId node, Start start);
  /// The order that it has not answered yet.
  const Start* unanswered_order(NodeId node) const;
  /// True the first time.
  bool started(NodeId node);
  bool all_started() const;

  // ---- an earlier launcher's attempt
  /// Its supervisor is in reach. `has_workers`: it had been told to start them.
  void attached(NodeId node, bool has_workers);
  bool is_attached(NodeId node) const { return hosts_.at(node).has_workers.has_value(); }
  enum class Found { NotYet, All, NotAllStarted };
  /// Whether all supervisors that are left have answered, and all had been told to start.
  Found found() const;

  // ---- ending
  /// No worker is left there, and nothing more comes.
  void gone(NodeId node);
  bool is_gone(NodeId node) const { return hosts_.at(node).presence != Presence::There; }
  bool all_gone() const;
  /// Nobody is left there to be told anything. Implies gone().
  void lost(NodeId node);
  bool is_lost(NodeId node) const { return hosts_.at(node).presence == Presence::Lost; }

  /// Where workers may be.
  template <class F>
  void for_each_there(F&& f) const {
    for (const auto& [node, host] : hosts_)
      if (host.presence == Presence::There) f(node);
  }
  /// Where a supervisor is left to be told something.
  template <class F>
  void for_each_supervised(F&& f) const {
    for (const auto& [node, host] : hosts_)
      if (host.presence != Presence::Lost) f(node);
  }

 private:
  struct Preparing {};
  struct Prepared {};
  struct Ordered {
    Start start;
  };
  struct Started {};
  enum class Presence { There, Gone, Lost };
  struct Host {
    PlacedNode placed;
    std::variant<Preparing, Prepared, Ordered, Started> step = Preparing{};
    std::optional<bool> has_workers = {};  // by its supervisor's word, once it has attached
    Presence presence = Presence::There;
  };

  std::map<NodeId, Host> hosts_;
};

}  // namespace train
