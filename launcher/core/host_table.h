// The nodes of one attempt: how far each has got with starting, and whether anybody is left there.
// It holds facts and answers the questions that starting, attaching and tearing down ask about
// them. RunController decides what follows.
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
  /// Make the table of an attempt whose nodes are all asked to prepare.
  explicit HostTable(const Placement& placement);
  /// Return the table of an attempt that an earlier launcher began: its nodes are prepared, and
  /// their supervisors have still to be found.
  static HostTable adopted(const Placement& placement);

  bool has(NodeId node) const { return hosts_.contains(node); }
  /// Precondition: has(node).
  const PlacedNode& placed(NodeId node) const { return hosts_.at(node).placed; }

  // ---- starting
  void prepared(NodeId node);
  bool is_prepared(NodeId node) const;
  bool all_prepared() const;
  /// The node is ordered to start its workers, unless it has started them.
  void ordered(NodeId node, Start start);
  /// Return the order that the node has not answered yet.
  const Start* unanswered_order(NodeId node) const;
  /// The node has started its workers. Return true the first time.
  bool started(NodeId node);
  bool all_started() const;

  /// The node has a new link: what was sent over the old one may be lost.
  void reconnected(NodeId node) { hosts_.at(node).may_lack_orders = true; }
  /// Return whether orders may be missing there: its supervisor has not attached since, and they
  /// were not given again.
  bool may_lack_orders(NodeId node) const { return hosts_.at(node).may_lack_orders; }
  void orders_given(NodeId node) { hosts_.at(node).may_lack_orders = false; }

  // ---- an earlier launcher's attempt
  /// The node's supervisor can be reached. `has_workers`: it had been told to start them.
  void attached(NodeId node, bool has_workers);
  bool is_attached(NodeId node) const { return hosts_.at(node).has_workers.has_value(); }
  enum class Found { NotYet, All, NotAllStarted };
  /// Return whether all remaining supervisors have answered, and whether all had been told to
  /// start.
  Found found() const;

  // ---- ending
  /// No worker is left there, and nothing more comes from there.
  void gone(NodeId node);
  bool is_gone(NodeId node) const { return hosts_.at(node).presence != Presence::There; }
  bool all_gone() const;
  /// No supervisor is left there that could be told anything. Implies gone().
  void lost(NodeId node);
  bool is_lost(NodeId node) const { return hosts_.at(node).presence == Presence::Lost; }

  /// Call `f` for each node where workers may be.
  template <class F>
  void for_each_there(F&& f) const {
    for (const auto& [node, host] : hosts_)
      if (host.presence == Presence::There) f(node);
  }
  /// Call `f` for each node where a supervisor is left that can be told something.
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
    bool may_lack_orders = false;
  };

  std::map<NodeId, Host> hosts_;
};

}  // namespace train
