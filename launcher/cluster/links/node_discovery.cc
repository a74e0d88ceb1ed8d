#include "launcher/cluster/links/node_discovery.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "launcher/core/run_history.h"
#include "lib/net/blocking.h"
#include "lib/net/within.h"

namespace train {
namespace {

constexpr Duration kSteadyAfter = milliseconds(500);
constexpr std::size_t kShownMax = 8;

std::string names_of(const std::vector<std::string>& nodes) {
  const std::vector<std::string> some(
      nodes.begin(),
      nodes.begin() + static_cast<std::ptrdiff_t>(std::min(nodes.size(), kShownMax)));
  const std::string text = fmt::format("{}", fmt::join(some, ", "));
  return nodes.size() <= kShownMax ? text
                                   : fmt::format("{} and {} more", text, nodes.size() - kShownMax);
}

Task<NodeNames> read_aside(ClusterConfig cluster) {
  const std::function<Result<NodeNames>()> work = [cluster] { return read_node_source(cluster); };
  auto reading = run_unjoined<NodeNames>(work);
  co_return co_await std::move(reading);
}

}  // namespace

NodeDiscovery::NodeDiscovery(const ClusterConfig& cluster, const std::vector<std::string>& nodes,
                             ClusterLinks& links, JournalWriter& journal, UserMessages& messages)
    : cluster_(cluster),
      maker_(cluster.ssh),
      known_(nodes),
      links_(links),
      journal_(journal),
      messages_(messages) {
  take(cluster.nodes);  // of a living attempt, some may not be listed any more
}

asio::awaitable<void> NodeDiscovery::run() {
  for (;;) {
    const auto woken = co_await pause_for(kDiscoverEvery);
    if (!woken) co_return;
    auto reading = read_steady();
    const auto nodes = co_await std::move(reading);
    if (nodes.has_value()) {
      warned_ = false;
      if (*nodes != listed_) take(*nodes);
      continue;
    }
    if (nodes.error().code == Errc::Cancelled) co_return;
    keep_old(nodes.error());
  }
}

// A file may be in the middle of being written: what is new in it counts once it stays the same for
// a moment.
Task<NodeNames> NodeDiscovery::read_steady() {
  auto reading = read_aside(cluster_);
  CO_TRY(NodeNames nodes, co_await std::move(reading));
  while (!cluster_.hosts_file.empty() && nodes != listed_) {
    CO_TRY_VOID(co_await pause_for(kSteadyAfter));
    auto again = read_aside(cluster_);
    CO_TRY(NodeNames now, co_await std::move(again));
    if (now == nodes) break;
    nodes = std::move(now);
  }
  co_return nodes;
}

void NodeDiscovery::keep_old(const Error& why) {
  if (std::exchange(warned_, true)) return;
  messages_.warn(
      fmt::format("keeping the {} nodes that were listed: {}", listed_.size(), why.describe()));
}

// Without a token, a run may have only nodes that need none.
NodeNames NodeDiscovery::trusted(const NodeNames& nodes) {
  NodeNames some;
  for (const std::string& node : nodes) {
    const auto may = links_.may_add(node);
    if (may)
      some.push_back(node);
    else if (!std::exchange(warned_of_trust_, true))
      messages_.warn("a node that was found is not used: " + may.error().describe());
  }
  return some;
}

void NodeDiscovery::take(const NodeNames& nodes) {
  const KnownNodes::Change change = known_.list(trusted(nodes));
  listed_ = nodes;
  std::vector<std::string> found, vanished;
  for (const auto& [id, address] : change.found) {
    found.push_back(address);
    add(id, address);
  }
  for (const NodeId id : change.back) {
    found.push_back(links_.name(id));
    links_.set_listed(id, true);
  }
  for (const NodeId id : change.vanished) {
    vanished.push_back(links_.name(id));
    links_.set_listed(id, false);
  }
  const std::string source = describe_node_source(cluster_);
  if (!found.empty()) messages_.phase(fmt::format("{} lists {} now", source, names_of(found)));
  if (!vanished.empty())
    messages_.phase(
        fmt::format("{} does not list {} any more: used until dead", source, names_of(vanished)));
  if (change.too_many > 0 && !std::exchange(warned_of_limit_, true))
    messages_.warn(
        fmt::format("{} has listed more than {} nodes during this run: others are not "
                    "used",
                    source, kKnownNodesMax));
}

void NodeDiscovery::add(NodeId id, const std::string& address) {
  journal_.remember(node_found_record(id, address));
  links_.add_found(maker_.make(address));
}

}  // namespace train
