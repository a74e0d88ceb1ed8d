#include "launcher/cluster/checkpoints/replica_copies.h"

#include <algorithm>

#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"

namespace train {

std::vector<std::string> replica_nodes(const std::vector<std::string>& group,
                                       const std::string& owner, int replicas) {
  std::vector<std::string> nodes{owner};
  const auto at = std::find(group.begin(), group.end(), owner);
  if (at == group.end()) return nodes;
  const auto first = static_cast<std::size_t>(at - group.begin());
  for (std::size_t i = 1; i < group.size() && nodes.size() < static_cast<std::size_t>(replicas);
       ++i)
    nodes.push_back(group[(first + i) % group.size()]);
  return nodes;
}

Task<std::vector<std::string>> ReplicaCopies::keep(Attempt attempt, std::string owner,
                                                   const ShardWritten& shard) {
  const std::vector<std::string> nodes = replica_nodes(groups_[attempt], owner, replicas_);
  const auto key_of = [&](const std::string& node) {
    return Key{attempt, node, shard.rank.value, shard.checkpoint_seq};
  };
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    const KeepShard order{shard, shard.checkpoint_seq};
    copies_[key_of(nodes[i])] = {order, {}};
    send(nodes[i], encode(order, attempt));
  }
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    const Key key = key_of(nodes[i]);
    auto waiting = kept(key);
    auto copied = co_await std::move(waiting);
    if (copied.has_error())
      co_return std::move(copied).error().with_context("keeping a copy on " + nodes[i]);
    copies_.erase(key);
  }
  co_return nodes;
}

Task<Unit> ReplicaCopies::kept(Key key) {
  for (;;) {
    const auto found = copies_.find(key);
    if (found == copies_.end()) co_return Error{Errc::Cancelled, "its attempt is over"};
    if (found->second.outcome) co_return *found->second.outcome;
    CO_TRY([[maybe_unused]] const bool woken, co_await changed_.wait_until(TimePoint::max()));
  }
}

void ReplicaCopies::answered(Attempt attempt, const std::string& node, const ShardKept& answer) {
  const auto found = copies_.find({attempt, node, answer.rank, answer.checkpoint_seq});
  if (found == copies_.end()) return;
  if (answer.error.empty())
    found->second.outcome = Unit{};
  else
    found->second.outcome = Error{errc_of(answer.error_code), answer.error};
  changed_.notify();
}

void ReplicaCopies::ask_again(Attempt attempt, const std::string& node) {
  for (const auto& [key, copy] : copies_) {
    if (std::get<0>(key) == attempt && std::get<1>(key) == node && !copy.outcome)
      send(node, encode(copy.order, attempt));
  }
}

void ReplicaCopies::lost(Attempt attempt, const std::string& node) {
  for (auto& [key, copy] : copies_) {
    if (std::get<0>(key) == attempt && std::get<1>(key) == node)
      copy.outcome = Error{Errc::Cancelled, "its node is lost"};
  }
  changed_.notify();
}

void ReplicaCopies::attempt_ended(Attempt attempt) {
  std::erase_if(copies_, [&](const auto& entry) { return std::get<0>(entry.first) <= attempt; });
  groups_.erase(groups_.begin(), groups_.upper_bound(attempt));
  changed_.notify();
}

// Send a frame to a node by its name. The frame is dropped while the node is away.
void ReplicaCopies::send(const std::string& node, const Frame& frame) {
  if (const auto id = links_.find(node)) links_.send(*id, frame);
}

}  // namespace train
