// The simulated launcher's connection to one traind. It does in virtual time what
// launcher/cluster/links/daemon_link.cc does. The same NodeLiveness decides when to dial and when
// the node counts as lost.
#pragma once

#include <functional>
#include <optional>

#include "launcher/core/node_liveness.h"
#include "tests/sim/node.h"

namespace train::sim {

class SimDaemonLink {
 public:
  struct Handlers {
    std::function<void(const NodeOffer&, bool attached)> offered;
    std::function<void(const SimFrame&)> received;
    std::function<void(const std::string& reason)> down;
    std::function<void()> refused;
  };
  SimDaemonLink(Sim& sim, SimNode& node, std::uint64_t generation, bool has_workers,
                Handlers handlers);

  void start() { dial(); }
  void send(SimFrame frame);
  void detach();
  void die();  // the launcher died: its kernel closes the connection
  bool told_down() const { return liveness_.lost(); }
  bool attached() const { return link_ != nullptr && !liveness_.lost(); }
  /// Network faults; see FaultKind.
  void reset();
  void forget();

 private:
  using Cause = NodeLiveness::Cause;
  void dial();
  void dialled(std::uint64_t boots);
  void connected();
  void received(const SimFrame& frame);
  void ended(Cause cause);
  void watch();

  Sim& sim_;
  SimNode& node_;
  std::uint64_t generation_;
  Handlers handlers_;
  NodeLiveness liveness_;
  LinkPtr link_;
  bool attached_ = false;     // the node has answered over it
  bool offered_ = false;      // it has offered something over it
  std::uint64_t serial_ = 0;  // of the connection: ignore events of older ones
  bool over_ = false;
};

}  // namespace train::sim
