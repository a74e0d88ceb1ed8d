#include "launcher/cluster/cluster_links.h"

#include <algorithm>

#include "launcher/cluster/node_address.h"
#include "launcher/cluster/start_frames.h"

namespace train {

ClusterLinks::ClusterLinks(asio::any_io_executor executor, Scope& scope, std::optional<Token> token,
                           Handlers handlers)
    : executor_(executor),
      scope_(scope),
      token_(std::move(token)),
      handlers_(std::move(handlers)) {}

void ClusterLinks::connect(std::vector<DaemonLinkOptions> all) {
  on_this_machine_ = std::all_of(all.begin(), all.end(), [](const DaemonLinkOptions& options) {
    return options.endpoint.is_loopback();
  });
  for (DaemonLinkOptions& options : all)
    add(NodeId{static_cast<int>(links_.size())}, std::move(options));
}

void ClusterLinks::add(NodeId id, DaemonLinkOptions options) {
  DaemonLink::Handlers handlers;
  handlers.offered = [this, id](const NodeOffer& offer, const std::string& reached_at) {
    handlers_.event(node_up(id, offer, reached_at));
  };
  handlers.received = [this, id](const Frame& frame) { handlers_.received(id, frame); };
  handlers.away = [this, id](const std::string& problem) { problems_[id] = problem; };
  handlers.down = [this, id](const std::string& reason) {
    handlers_.event(NodeDown{id, reason});
    names_.erase(id);
  };
  handlers.refused = handlers_.refused;
  links_.push_back(
      std::make_unique<DaemonLink>(executor_, std::move(options), token_, std::move(handlers)));
  scope_.spawn("link", links_.back()->run());
}

NodeUp ClusterLinks::node_up(NodeId id, const NodeOffer& offer, const std::string& reached_at) {
  names_[id] = offer.node_name;
  problems_.erase(id);
  addresses_[id] = on_this_machine_ ? "127.0.0.1" : address_for_peers(reached_at, offer.addresses);
  NodeUp up{NodeCapacity{id, offer.node_name, to_resources(offer.total), to_resources(offer.free),
                         offer.draining},
            addresses_[id]};
  for (const std::uint32_t attempt : offer.attempts) up.attempts.push_back(Attempt{attempt});
  return up;
}

std::string ClusterLinks::name(NodeId node) const {
  const auto found = names_.find(node);
  return found == names_.end() ? links_.at(node.value)->endpoint_text() : found->second;
}

std::string ClusterLinks::address(NodeId node) const {
  const auto found = addresses_.find(node);
  return found == addresses_.end() ? "" : found->second;
}

std::vector<WaitingNode> ClusterLinks::away() const {
  std::vector<WaitingNode> nodes;
  for (const auto& [node, problem] : problems_)
    nodes.push_back({links_[node.value]->endpoint_text(), problem, {}});
  return nodes;
}

asio::awaitable<void> ClusterLinks::detach() {
  for (auto& link : links_) co_await link->detach();
}

}  // namespace train
