// The nodes of a run whose hosts file or DNS name may list others later. A node keeps its NodeId
// for the whole run, also while it is not listed. Pure.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/ids.h"

namespace train {

/// How many nodes a run may have known, so that a name whose addresses change all the time does not
/// fill the memory.
inline constexpr std::size_t kKnownNodesMax = 65'536;

class KnownNodes {
 public:
  /// `nodes`: by NodeId, as the run begins with them. All of them count as listed.
  explicit KnownNodes(const std::vector<std::string>& nodes);

  struct Change {
    std::vector<std::pair<NodeId, std::string>> found = {};  // new ones, with their addresses
    std::vector<NodeId> back = {}, vanished = {};
    std::size_t too_many = 0;  // new ones beyond kKnownNodesMax, which are not used
    bool operator==(const Change&) const = default;
  };
  /// Take in what is listed now, and return what is different from before.
  Change list(const std::vector<std::string>& nodes);

 private:
  struct Node {
    NodeId id;
    bool listed = true;
  };
  std::map<std::string, Node> nodes_;  // by address
};

}  // namespace train
