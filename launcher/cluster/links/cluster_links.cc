#include "launcher/cluster/links/cluster_links.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "launcher/cluster/links/node_address.h"
#include "launcher/core/ssh_hosts.h"
#include "lib/base/host.h"
#include "lib/base/network_addresses.h"
#include "lib/net/within.h"

namespace train {
namespace {

constexpr std::size_t kDialledAtOnce = 200;
constexpr Duration kDialPause = milliseconds(10);

}  // namespace

Result<Unit> check_nodes(const std::vector<std::string>& nodes, bool has_tls) {
  for (const std::string& text : nodes) {
    if (text.starts_with(kSshPrefix)) continue;  // sshd has proved it
    TRY(const Endpoint endpoint, parse_endpoint(text));
    if (endpoint.kind == Endpoint::Unix || has_tls) continue;
    return Error{
        Errc::Unauthenticated,
        fmt::format("refusing to send the workers' environment to {}: anyone listening there would "
                    "receive it",
                    text),
        "give --token-file FILE (made by `traind token FILE`, the same on every node and "
        "launcher) or --tls FOLDER (made by `traind certs`), or name the Unix socket of a traind "
        "on this machine (unix:PATH)"};
  }
  return Unit{};
}

DaemonLinkOptions link_options(const RunConfig& config, const RunIdentity& run,
                               const std::string& build) {
  const auto to_ms = [](Duration duration) {
    return std::chrono::duration_cast<milliseconds>(duration).count();
  };
  const FailureConfig& failure = config.failure_config;
  DaemonLinkOptions link{
      .self = {build, "launcher", host_name(), ::getpid(), ""}, .attach = {}, .owner_key = ""};
  link.attach.run_id = run.run_id;
  link.attach.run_name = run.name;
  link.attach.generation = run.generation.value;
  link.attach.user = config.user.value_or("");
  link.attach.dead_after_ms = to_ms(failure.node_dead_after);
  // A node becomes suspect when the second heartbeat in a row is missing.
  link.attach.heartbeat_ms = std::min<std::int64_t>(1000, to_ms(failure.node_suspect_after) / 3);
  link.attach.orphan_timeout_ms = to_ms(failure.orphan_timeout);
  link.limits = {.suspect_after = failure.node_suspect_after,
                 .dead_after = failure.node_dead_after,
                 .away_limit = std::max(failure.orphan_timeout, failure.node_dead_after),
                 .heartbeat_every = milliseconds(link.attach.heartbeat_ms)};
  return link;
}

ClusterLinks::ClusterLinks(asio::any_io_executor executor, Scope& scope, TlsFiles tls,
                           LinkObserver& observer)
    : executor_(executor),
      scope_(scope),
      tls_(std::move(tls)),
      source_([this]() -> decltype(auto) { return current_tls(); }),
      observer_(observer) {}

void ClusterLinks::connect(DaemonLinkOptions options,
                           std::vector<std::unique_ptr<Dialler>> diallers) {
  options_ = std::move(options);
  own_addresses_ = read_node_addresses();
  on_this_machine_ = std::all_of(diallers.begin(), diallers.end(),
                                 [](const auto& dialler) { return dialler->is_loopback(); });
  for (auto& dialler : diallers)
    add(NodeId{static_cast<int>(nodes_.size())}, std::move(dialler), /*later=*/false);
  scope_.spawn("dial", dial(nodes_.size()));
  scope_.spawn("heartbeats", keep_alive());
}

void ClusterLinks::add_found(std::unique_ptr<Dialler> dialler) {
  const NodeId id{static_cast<int>(nodes_.size())};
  add(id, std::move(dialler), /*later=*/true);
  observer_.feed(NodeFound{id});
  scope_.spawn("link", nodes_[id.value].link->run());
}

void ClusterLinks::set_listed(NodeId id, bool listed) {
  Node& node = nodes_.at(id.value);
  if (listed && std::exchange(node.vanished, false)) observer_.feed(NodeFound{id});
  node.link->set_listed(listed);
}

// Start the links, but not thousands of them at the same moment: the memory for their handshakes
// would be most of what the launcher ever uses.
asio::awaitable<void> ClusterLinks::dial(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0 && i % kDialledAtOnce == 0) {
      const auto paused = co_await pause_for(kDialPause);
      if (!paused) co_return;
    }
    scope_.spawn("link", nodes_[i].link->run());
  }
}

// Return the current certificates: a run may outlive its certificate, and a link that breaks
// reconnects with the current one.
const std::optional<TlsContext>& ClusterLinks::current_tls() {
  if (tls_.changed(std::chrono::steady_clock::now()))
    if (const auto read = tls_.read_again(); !read) observer_.stale(read.error());
  return tls_.context();
}

asio::awaitable<void> ClusterLinks::keep_alive() {
  do {
    const TimePoint now = std::chrono::steady_clock::now();
    for (Node& node : nodes_) node.link->keep_alive(now);
  } while (co_await pause_for(kKeepAliveEvery));
}

void ClusterLinks::add(NodeId id, std::unique_ptr<Dialler> dialler, bool later) {
  DaemonLink::Handlers handlers;
  handlers.offered = [this, id](const NodeOffer& offer, const std::string& reached_at,
                                bool attached) { offered(id, offer, reached_at, attached); };
  handlers.received = [this, id](const Frame& frame) { observer_.received(id, frame); };
  handlers.away = [this, id](const std::string& problem) { nodes_[id.value].problem = problem; };
  handlers.down = [this, id](const std::string& reason) {
    observer_.feed(NodeDown{id, reason});
    nodes_[id.value].name.clear();
  };
  handlers.refused = [this, id](const Error& error) { return refused(id, error); };
  handlers.reached = [this, id](const std::string& instance) { return reached(id, instance); };
  handlers.vanished = [this, id] {
    nodes_[id.value].problem.clear();
    instances_.erase(std::exchange(nodes_[id.value].instance, ""));
    nodes_[id.value].vanished = true;
    observer_.feed(NodeVanished{id});
  };
  Node& node = nodes_.emplace_back();
  node.loopback = dialler->is_loopback();
  node.link = std::make_unique<DaemonLink>(executor_, std::move(dialler), options_, source_,
                                           std::move(handlers));
  node.later = later;
}

// Two links to one traind would take the run from each other for ever.
std::string ClusterLinks::reached(NodeId id, const std::string& instance) {
  const auto [known, fresh] = instances_.try_emplace(instance, id);
  if (known->second != id) return nodes_[known->second.value].link->endpoint_text();
  Node& node = nodes_[id.value];
  if (fresh) instances_.erase(node.instance);
  node.instance = instance;
  return "";
}

// What a file or a name lists may be wrong, or out of date: that is no reason to end a run that
// goes on without it. But another launcher has the run for good.
bool ClusterLinks::refused(NodeId id, const Error& error) {
  Node& node = nodes_[id.value];
  if (!node.later || error.code == Errc::Fenced) {
    observer_.refused(error);
    return true;
  }
  if (std::exchange(node.turned_away, error.message) != error.message) observer_.turned_away(error);
  return false;
}

// Once a node turns out to be elsewhere, behind a tunnel, the others need addresses that it
// reaches.
void ClusterLinks::offered(NodeId id, const NodeOffer& offer, const std::string& reached_at,
                           bool attached) {
  nodes_[id.value].offer = offer;
  nodes_[id.value].reached_at = reached_at;
  if (on_this_machine_ && !on_this_machine(own_addresses_, offer.addresses)) {
    on_this_machine_ = false;
    for (const NodeId other : up()) {
      const Node& node = nodes_[other.value];
      if (other != id) observer_.feed(node_up(other, node.offer, node.reached_at));
    }
  }
  NodeUp up = node_up(id, offer, reached_at);
  up.attached = attached;
  observer_.feed(up);
}

NodeUp ClusterLinks::node_up(NodeId id, const NodeOffer& offer, const std::string& reached_at) {
  Node& node = nodes_[id.value];
  node.name = offer.node_name;
  node.address = on_this_machine_ ? "127.0.0.1" : address_for_peers(reached_at, offer.addresses);
  node.problem.clear();
  NodeUp up{NodeCapacity{id, offer.node_name, offer.total, offer.free, offer.draining,
                         node.link->endpoint_text(), offer.labels, offer.gpus},
            node.address,
            {},
            /*attached=*/false,
            offer.owner_has,
            offer.owner_wants,
            offer.runs};
  for (const std::uint32_t attempt : offer.attempts) up.attempts.push_back(Attempt{attempt});
  return up;
}

std::string ClusterLinks::name(NodeId id) const {
  const Node& node = nodes_.at(id.value);
  return node.name.empty() ? node.link->endpoint_text() : node.name;
}

bool ClusterLinks::is_on_our_machine(NodeId id) const {
  const Node& node = nodes_.at(id.value);
  return node.loopback ||
         (node.offer.host == host_name() && shares_address(own_addresses_, node.offer.addresses));
}

std::vector<WaitingNode> ClusterLinks::away() const {
  std::vector<WaitingNode> away;
  for (const Node& node : nodes_) {
    if (!node.problem.empty()) away.push_back({node.link->endpoint_text(), node.problem, {}});
  }
  return away;
}

std::vector<NodeId> ClusterLinks::up() const {
  std::vector<NodeId> up;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (!nodes_[i].name.empty()) up.push_back(NodeId{static_cast<int>(i)});
  return up;
}

std::optional<NodeId> ClusterLinks::find(const std::string& name) const {
  if (name.empty()) return std::nullopt;
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].name == name) return NodeId{static_cast<int>(i)};
  return std::nullopt;
}

asio::awaitable<void> ClusterLinks::detach(DetachRun how) {
  for (std::size_t i = 0; i < nodes_.size(); ++i) co_await nodes_[i].link->detach(how);
}

}  // namespace train
