// Watches the hosts file, or the name, of a run for nodes that come and go, while the run goes on.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>
#include <vector>

#include "launcher/cluster/links/cluster_links.h"
#include "launcher/cluster/links/node_source.h"
#include "launcher/cluster/run/journal_writer.h"
#include "launcher/core/known_nodes.h"
#include "launcher/report/user_messages.h"

namespace train {

/// How often the hosts file is read, or the name looked up.
inline constexpr Duration kDiscoverEvery = seconds(5);

class NodeDiscovery {
 public:
  /// `nodes`: those that `links` has, by NodeId. All must outlive this.
  NodeDiscovery(const ClusterConfig& cluster, const std::vector<std::string>& nodes,
                ClusterLinks& links, JournalWriter& journal, UserMessages& messages);

  /// Watch until cancelled. A resolver or a storage that hangs holds up only this.
  asio::awaitable<void> run();

 private:
  Task<NodeNames> read_steady();
  void take(const NodeNames& nodes);
  NodeNames trusted(const NodeNames& nodes);
  void add(NodeId id, const std::string& address);
  void keep_old(const Error& why);

  const ClusterConfig cluster_;
  const DiallerMaker maker_;
  KnownNodes known_;
  NodeNames listed_;  // last
  ClusterLinks& links_;
  JournalWriter& journal_;
  UserMessages& messages_;
  bool warned_ = false;  // that it cannot be read; until it can
  bool warned_of_limit_ = false, warned_of_trust_ = false;
};

}  // namespace train
