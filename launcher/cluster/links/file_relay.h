// Relays reads of files that nodes keep on their disks. It asks one node that has the file, and the
// others if that fails. It serves the launcher itself and supervisors, to which the launcher passes
// the bytes on.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/cluster/links/node_links.h"
#include "launcher/report/user_messages.h"
#include "lib/base/ids.h"
#include "lib/base/time.h"
#include "lib/wire/attempt_messages.h"

namespace train {

/// How long the relay waits for a file if all its nodes are away, since they may come back.
inline constexpr Duration kHoldersAwayMax = std::chrono::seconds(60);

class FileRelay {
 public:
  using Reply = std::function<void(const FileBytes&)>;
  FileRelay(const Clock& clock, NodeLinks& links, UserMessages& messages)
      : clock_(clock), links_(links), messages_(messages) {}

  /// Record which nodes have the shard at `location`, "data-3-0.12/rank-0003".
  void knows(const std::string& location, std::vector<std::string> nodes) {
    holders_[location] = std::move(nodes);
  }
  /// Forget the locations of checkpoints up to this attempt.
  void forget(Attempt up_to);
  /// Read a file. `reply` is called once, with the id of the request; with Corrupt if no node has
  /// the file. It is not called if a node that is away may come back: the caller then asks again.
  void ask(const ReadFile& request, Reply reply);
  void answered(NodeId node, FileBytes answer);
  /// Ask other nodes now for what this node was asked for.
  void lost(NodeId node);

 private:
  struct Asked {
    ReadFile request;
    Reply reply;
    NodeId node;
    std::set<NodeId> tried;
    TimePoint at;
  };
  void ask_next(Asked asked);
  std::optional<NodeId> next(const Asked& asked) const;
  void give_up(const Asked& asked);
  bool may_come_back(const std::string& location);

  const Clock& clock_;
  NodeLinks& links_;
  UserMessages& messages_;
  std::map<std::string, std::vector<std::string>> holders_;
  std::map<std::string, TimePoint> missed_;  // locations that no node had, and since when
  std::map<std::uint64_t, Asked> asked_;
  std::uint64_t last_id_ = 0;
};

}  // namespace train
