// The run's links to all of its daemons. They know which daemons answer, under which name and
// address, and what is wrong with the others.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cluster/links/daemon_link.h"
#include "launcher/cluster/links/run_identity.h"
#include "launcher/core/job_spec.h"
#include "launcher/core/run_events.h"
#include "launcher/report/progress.h"
#include "lib/net/scope.h"
#include "lib/net/tls_files.h"

namespace train {

/// Check that nodes can be authenticated. A node gets the whole environment of its workers with the
/// keys in it, but not before it has proved who it is. Unauthenticated where a TCP address is named
/// and there is nothing to prove it with.
Result<Unit> check_nodes(const std::vector<std::string>& nodes, bool has_tls);

/// Return how the launcher of this run talks to a daemon. The caller adds the owner's key, and
/// whether workers may live already.
DaemonLinkOptions link_options(const RunConfig& config, const RunIdentity& run,
                               const std::string& build);

class ClusterLinks {
 public:
  struct Handlers {
    std::function<void(const RunEvent&)> event;  // NodeUp, NodeDown
    std::function<void(NodeId, const Frame&)> received;
    std::function<void(const Error&)> refused;  // one daemon refused us for good
    std::function<void(const Error&)> stale;    // new certificates or token cannot be used
  };
  /// Links run in `scope`, which may start later.
  ClusterLinks(asio::any_io_executor executor, Scope& scope, TlsFiles tls, Handlers handlers);

  /// Make one link for each endpoint; the n-th is NodeId n. To be called once.
  void connect(DaemonLinkOptions options, const std::vector<Endpoint>& endpoints);
  std::size_t size() const { return nodes_.size(); }
  /// Send a frame. It is dropped while the daemon is away.
  void send(NodeId node, const Frame& frame) { nodes_.at(node.value).link->send(frame); }
  /// Return what the node calls itself, or how it is reached while it has not answered.
  std::string name(NodeId id) const;
  /// Return the address where workers of other nodes reach it; empty before it has answered.
  const std::string& address(NodeId id) const { return nodes_.at(id.value).address; }
  std::vector<WaitingNode> away() const;
  /// Return the nodes that answer.
  std::vector<NodeId> up() const;
  std::optional<NodeId> find(const std::string& name) const;
  /// Tell all daemons that the run is over, and whether they keep its checkpoints all the same.
  asio::awaitable<void> detach(bool keep_data);

 private:
  void add(NodeId id, const Endpoint& endpoint);
  asio::awaitable<void> dial();
  asio::awaitable<void> keep_alive();
  const std::optional<TlsContext>& current_tls();
  NodeUp node_up(NodeId id, const NodeOffer& offer, const std::string& reached_at);

  asio::any_io_executor executor_;
  Scope& scope_;
  TlsFiles tls_;
  const TlsSource source_;
  DaemonLinkOptions options_;
  Handlers handlers_;
  bool on_this_machine_ = true;  // every daemon is reached over loopback
  struct Node {
    std::unique_ptr<DaemonLink> link;
    std::string name;     // empty while it is not up
    std::string address;  // empty before it has answered
    std::string problem;
  };
  std::vector<Node> nodes_;  // by NodeId
};

}  // namespace train
