// Chooses the nodes that stand ready to take over a detached run's controller if its machine dies,
// and who is asked then whether it is dead. Pure.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/base/ids.h"
#include "lib/base/time.h"

namespace train {

class FailoverNodes {
 public:
  /// `wanted`: how many nodes stand ready. `seed`: of the run; runs with other seeds choose other
  /// nodes.
  FailoverNodes(int wanted, std::uint64_t seed)
      : chosen_(static_cast<std::size_t>(wanted)), seed_(seed) {}

  struct Order {
    NodeId node;
    int place = 0;  // 0: it is the first to take over
    bool operator==(const Order&) const = default;
  };
  struct Change {
    std::vector<Order> prepare = {};
    std::vector<NodeId> cancel = {};
    bool of_note = false;  // ready() or voters() has changed
    bool operator==(const Change&) const = default;
  };
  /// A node on another machine than the controller's has news. `attached`: over a new link.
  Change up(NodeId node, bool attached, bool draining, TimePoint now);
  /// A node is lost.
  Change down(NodeId node);
  /// The link to a node is broken; to be told again at each tick while it is.
  void away(NodeId node, TimePoint now) { away_.try_emplace(node, now); }
  /// A node says whether it can obey its order, or why not.
  Change answered(NodeId node, bool can, const std::string& why, TimePoint now);
  /// Choose nodes for the places that are free, and give up those that do not answer. To be called
  /// each second or so: then most nodes are there to choose from when a run begins.
  Change tick(TimePoint now);

  /// Return whether all nodes that have an order have answered it.
  bool settled() const;
  /// Return the nodes that stand ready, the first to take over first.
  std::vector<NodeId> ready() const;
  /// Return the nodes on other machines that are not lost.
  const std::set<NodeId>& nodes() const { return up_; }
  /// Return those that the controller is in touch with, and that stay.
  std::set<NodeId> voters() const;
  /// Return of a node that cannot, why, if none can and no other is left to be asked.
  std::optional<std::pair<NodeId, std::string>> trouble() const;

 private:
  struct Place {
    std::optional<NodeId> node;
    bool ready = false;
    TimePoint asked{};
  };
  Place* place_of(NodeId node);
  bool may_be_chosen(NodeId node) const;
  std::optional<NodeId> best() const;
  void give_up_the_absent(TimePoint now, Change& change);
  void leave(Place& place, Change& change);
  void order(Place& place, NodeId node, TimePoint now, Change& change);
  void give_up(Place& place, const std::string& why, TimePoint now, Change& change);

  std::vector<Place> chosen_;
  const std::uint64_t seed_;
  std::set<NodeId> up_, draining_;
  std::map<NodeId, TimePoint> away_;     // since when
  std::set<NodeId> gone_;                // of those: for some time
  std::map<NodeId, std::string> unfit_;  // why
  TimePoint unfit_since_{};
  std::set<NodeId> ordered_;  // they may have an order of ours that holds
};

}  // namespace train
