// The nodes of one attempt: how far each has got with starting, and whether anything is left there.
// It holds facts and answers the questions that starting, attaching and tearing down ask about
// them. AttemptController and GroupEnding decide what follows.
#pragma once

#include <cstddef>
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
  /// their supervisors have yet to be found.
  static HostTable adopted(const Placement& placement);

  bool has(NodeId node) const { return hosts_.contains(node); }
  /// Precondition: has(node).
  const PlacedNode& placed(NodeId node) const { return hosts_.at(node).placed; }

  // ---- starting
  void prepared(NodeId node);
  bool is_prepared(NodeId node) const;
  bool all_prepared() const { return counts_.preparing == 0; }
  /// Record that the node is ordered to start its workers, unless it has already started them.
  void ordered(NodeId node, Start start);
  /// Return the order that the node has not answered yet.
  const Start* unanswered_order(NodeId node) const;
  /// Record that the node has started its workers. Return true the first time.
  bool started(NodeId node);
  bool all_started() const { return counts_.started == hosts_.size(); }

  /// Record that the node has a new link: what was sent over the old one may be lost.
  void reconnected(NodeId node) { hosts_.at(node).may_lack_orders = true; }
  /// Return whether the node may have missed orders: since the link broke, its supervisor has not
  /// attached and the orders were not sent again.
  bool may_lack_orders(NodeId node) const { return hosts_.at(node).may_lack_orders; }
  void orders_given(NodeId node) { hosts_.at(node).may_lack_orders = false; }

  // ---- an earlier launcher's attempt
  /// Record that the node's supervisor can be reached. `has_workers`: it had been told to start
  /// them.
  void attached(NodeId node, bool has_workers);
  bool is_attached(NodeId node) const { return hosts_.at(node).has_workers.has_value(); }
  enum class Found { NotYet, All, NotAllStarted };
  /// Return whether all remaining supervisors have answered, and whether all had been told to
  /// start.
  Found found() const;

  // ---- ending
  /// Record that no worker is left on the node and that nothing more will arrive from it.
  void gone(NodeId node);
  bool is_gone(NodeId node) const { return hosts_.at(node).presence != Presence::There; }
  bool all_gone() const { return counts_.there == 0; }
  /// Record that no supervisor is left on the node to take orders. Implies gone().
  void lost(NodeId node);
  bool is_lost(NodeId node) const { return hosts_.at(node).presence == Presence::Lost; }

  /// Call `f` for each node where workers may be.
  template <class F>
  void for_each_there(F&& f) const {
    for (const auto& [node, host] : hosts_)
      if (host.presence == Presence::There) f(node);
  }
  /// Call `f` for each node that still has a supervisor to take orders.
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
  using Step = std::variant<Preparing, Prepared, Ordered, Started>;
  enum class Presence { There, Gone, Lost };
  struct Host {
    PlacedNode placed;
    Step step = Preparing{};
    std::optional<bool> has_workers = {};  // as its supervisor said when it attached
    Presence presence = Presence::There;
    bool may_lack_orders = false;
  };

  struct Counts {
    std::size_t preparing = 0, started = 0, there = 0;
    std::size_t to_find = 0;  // of those there: their supervisors
  };

  void count(const Host& host, int by);
  void set(Host& host, Step step);
  void set(Host& host, Presence presence);

  std::map<NodeId, Host> hosts_;
  Counts counts_;  // they are asked for after each event
};

}  // namespace train
