// The simulated launcher's connection to one traind: what launcher/cluster/daemon_link.cc does, in
// virtual time: connects, attaches, sends heartbeats, takes silence for suspicion and for death,
// and calls again.
#pragma once

#include <functional>
#include <optional>

#include "tests/sim/node.h"

namespace train::sim {

class SimDaemonLink {
 public:
  struct Handlers {
    std::function<void(const NodeOffer&)> offered;
    std::function<void(const SimFrame&)> received;
    std::function<void(const std::string& reason)> down;
    std::function<void()> refused;
  };
  SimDaemonLink(Sim& sim, SimNode& node, std::uint64_t epoch, bool has_workers, Handlers handlers);

  void start() { dial(); }
  void send(SimFrame frame);
  void detach();
  void die();  // with the launcher: its kernel closes the connection
  bool told_down() const { return told_down_; }
  bool attached() const { return link_ != nullptr && !told_down_; }
  /// Faults of the network; see FaultKind.
  void reset();
  void forget();

 private:
  enum class Why { Away, Silent };
  void dial();
  void dialled(TimePoint began, std::uint64_t boots);
  void connected();
  void received(const SimFrame& frame);
  void ended(Why why);
  void beat();
  void watch();

  Sim& sim_;
  SimNode& node_;
  std::uint64_t epoch_;
  Handlers handlers_;
  Duration suspect_after_, dead_after_, away_limit_, heartbeat_every_, redial_max_;
  Duration redial_;
  LinkPtr link_;
  std::uint64_t serial_ = 0;  // of the connection: events of older ones are void
  TimePoint last_heard_, began_, listening_since_;
  TimePoint away_at_;
  const bool has_workers_;  // of an attempt that an earlier launcher began
  bool ever_attached_ = false, told_down_ = true, over_ = false;
};

}  // namespace train::sim
