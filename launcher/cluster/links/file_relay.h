// Reads of files that nodes keep on their disks: asked of one node that has them, and of the others
// where it fails. For supervisors that the launcher passes the bytes on to, and for the launcher.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lib/base/ids.h"
#include "lib/base/time.h"
#include "lib/wire/attempt_messages.h"

namespace train {

/// So long a file is not given up whose nodes are all away: they may come back.
inline constexpr Duration kHoldersAwayMax = std::chrono::seconds(60);

class FileRelay {
 public:
  using Reply = std::function<void(const FileBytes&)>;
  struct Handlers {
    std::function<void(NodeId, const Frame&)> send;
    std::function<std::vector<NodeId>()> nodes;  // that are connected
    std::function<std::string(NodeId)> name;
    std::function<void(const std::string&)> say;
  };
  FileRelay(const Clock& clock, Handlers handlers)
      : clock_(clock), handlers_(std::move(handlers)) {}

  /// Which nodes have the shard at `place`, "data-3-0.12/rank-0003".
  void knows(const std::string& place, std::vector<std::string> nodes) {
    holders_[place] = std::move(nodes);
  }
  /// Forget the places of checkpoints up to this attempt.
  void forget(Attempt up_to);
  /// Answered once, with the id of the request; Corrupt where no node has it. Not answered where a
  /// node is lost that may come back: whoever asks asks again.
  void ask(const ReadFile& request, Reply reply);
  void answered(NodeId node, FileBytes answer);
  /// What it was asked for, others are asked for now.
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
  bool may_come_back(const std::string& place);

  const Clock& clock_;
  Handlers handlers_;
  std::map<std::string, std::vector<std::string>> holders_;
  std::map<std::string, TimePoint> missed_;  // places that no node had, since when
  std::map<std::uint64_t, Asked> asked_;
  std::uint64_t last_id_ = 0;
};

}  // namespace train
