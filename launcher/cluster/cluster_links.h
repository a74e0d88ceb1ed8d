// The run's links to all of its daemons: which answer, under which name and address, and what is
// wrong with the others.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cluster/daemon_link.h"
#include "launcher/core/run_events.h"
#include "launcher/report/progress.h"
#include "lib/net/scope.h"

namespace train {

class ClusterLinks {
 public:
  struct Handlers {
    std::function<void(const RunEvent&)> event;  // NodeUp, NodeDown
    std::function<void(NodeId, const Frame&)> received;
    std::function<void(const Error&)> refused;  // by one of them, for good
  };
  /// Links run in `scope`, which may come to life later.
  ClusterLinks(asio::any_io_executor executor, Scope& scope, std::optional<Token> token,
               Handlers handlers);

  /// One link each; the n-th is NodeId n.
  void connect(std::vector<DaemonLinkOptions> all);
  std::size_t size() const { return links_.size(); }
  /// Dropped while the daemon is away.
  void send(NodeId node, const Frame& frame) { links_.at(node.value)->send(frame); }
  /// What the node calls itself; how it is reached, while it has not answered.
  std::string name(NodeId node) const;
  /// Where workers of other nodes reach it; empty before it has answered.
  std::string address(NodeId node) const;
  std::vector<WaitingNode> away() const;
  /// Tell all daemons that the run is over.
  asio::awaitable<void> detach();

 private:
  void add(NodeId id, DaemonLinkOptions options);
  NodeUp node_up(NodeId id, const NodeOffer& offer, const std::string& reached_at);

  asio::any_io_executor executor_;
  Scope& scope_;
  std::optional<Token> token_;
  Handlers handlers_;
  bool on_this_machine_ = true;                     // every daemon is reached over loopback
  std::vector<std::unique_ptr<DaemonLink>> links_;  // by NodeId
  std::map<NodeId, std::string> names_;             // of those that are up
  std::map<NodeId, std::string> addresses_;
  std::map<NodeId, std::string> problems_;
};

}  // namespace train
