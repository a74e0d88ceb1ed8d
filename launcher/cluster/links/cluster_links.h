// The run's links to all of its daemons. They know which daemons answer, the names and addresses of
// these, and what is wrong with the others.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cluster/links/daemon_link.h"
#include "launcher/cluster/links/event_sink.h"
#include "launcher/cluster/links/node_links.h"
#include "launcher/cluster/links/run_identity.h"
#include "launcher/core/job_spec.h"
#include "launcher/report/progress.h"
#include "lib/net/scope.h"
#include "lib/net/tls_files.h"

namespace train {

/// Check that nodes can be authenticated. A node gets the whole environment of its workers,
/// including the keys in it, but only after it has proved who it is. Unauthenticated if a TCP
/// address is named and there is nothing to prove it with.
Result<Unit> check_nodes(const std::vector<std::string>& nodes, bool has_tls);

/// Return how the launcher of this run talks to a daemon. The caller adds the owner's key, and
/// whether workers may already live.
DaemonLinkOptions link_options(const RunConfig& config, const RunIdentity& run,
                               const std::string& build);

/// The receiver of news from the links. Its events are NodeUp, NodeDown, NodeFound and
/// NodeVanished.
class LinkObserver : public EventSink {
 public:
  virtual void received(NodeId node, const Frame& frame) = 0;
  /// Handle a daemon's refusal of the run, which is final.
  virtual void refused(const Error& error) = 0;
  /// Handle a refusal by a node that was found while the run went on: the run does without it.
  virtual void turned_away(const Error& error) = 0;
  /// Handle new certificates, or a new token, that cannot be used. The links keep the old ones.
  virtual void stale(const Error& error) = 0;
};

class ClusterLinks final : public NodeLinks {
 public:
  /// Links run in `scope`, which may start later.
  ClusterLinks(asio::any_io_executor executor, Scope& scope, TlsFiles tls, LinkObserver& observer);

  /// Make one link for each dialler; the n-th is NodeId n. Call this once.
  void connect(DaemonLinkOptions options, std::vector<std::unique_ptr<Dialler>> diallers);
  /// Check that a node can be authenticated (check_nodes()).
  Result<Unit> may_add(const std::string& node) const {
    return check_nodes({node}, tls_.context().has_value());
  }
  /// Add a link to a node that was found later. Its NodeId is the next.
  void add_found(std::unique_ptr<Dialler> dialler);
  /// Say whether the job still names the node: one that it does not name is given up once it is
  /// dead.
  void set_listed(NodeId id, bool listed);
  std::size_t size() const { return nodes_.size(); }
  void send(NodeId node, const Frame& frame) override { nodes_.at(node.value).link->send(frame); }
  std::string name(NodeId id) const override;
  /// Return the address at which workers on other nodes reach it; empty until it has answered.
  const std::string& address(NodeId id) const { return nodes_.at(id.value).address; }
  /// Return the node as the job names it.
  const std::string& endpoint_text(NodeId id) const {
    return nodes_.at(id.value).link->endpoint_text();
  }
  /// Return whether the node, which has made an offer, is the machine that this process runs on.
  bool is_on_our_machine(NodeId id) const;
  /// Return whether there is something wrong with the link to the node.
  bool is_away(NodeId id) const { return !nodes_.at(id.value).problem.empty(); }
  std::vector<WaitingNode> away() const;
  std::vector<NodeId> up() const override;
  std::optional<NodeId> find(const std::string& name) const override;
  /// Tell all daemons that the run is over, and how.
  asio::awaitable<void> detach(DetachRun how);

 private:
  void add(NodeId id, std::unique_ptr<Dialler> dialler, bool later);
  bool refused(NodeId id, const Error& error);
  std::string reached(NodeId id, const std::string& instance);
  asio::awaitable<void> dial(std::size_t count);
  asio::awaitable<void> keep_alive();
  const std::optional<TlsContext>& current_tls();
  void offered(NodeId id, const NodeOffer& offer, const std::string& reached_at, bool attached);
  NodeUp node_up(NodeId id, const NodeOffer& offer, const std::string& reached_at);

  asio::any_io_executor executor_;
  Scope& scope_;
  TlsFiles tls_;
  const TlsSource source_;
  DaemonLinkOptions options_;
  LinkObserver& observer_;
  std::vector<std::string> own_addresses_;
  bool on_this_machine_ = true;  // all nodes heard of, and reached over loopback
  struct Node {
    std::unique_ptr<DaemonLink> link;
    std::string name;     // empty while it is not up
    std::string address;  // empty until it has answered
    std::string problem;
    NodeOffer offer = {};    // the newest
    std::string reached_at;  // with it
    bool loopback = false;   // it is dialled over loopback, or a Unix socket
    bool later = false;      // found while the run went on
    bool vanished = false;
    std::string turned_away = {};  // why, last
    std::string instance = {};     // of its traind, last
  };
  std::map<std::string, NodeId> instances_;  // of traind: which node it is
  std::deque<Node> nodes_;                   // by NodeId; links are added while others run
};

}  // namespace train
