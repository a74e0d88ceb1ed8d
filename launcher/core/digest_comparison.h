// Compares what the nodes of an attempt would run, before workers start. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/core/job_spec.h"
#include "lib/base/ids.h"
#include "lib/model/node_digests.h"

namespace train {

class DigestComparison {
 public:
  /// Record what a node, of this name, has told. Once for each node.
  void add(NodeId node, const std::string& name, NodeDigests digests);

  struct Finding {
    NodeId node;  // the first of those that stand out, or that lack something
    std::vector<std::string> texts = {};  // one for each kind of node that stands out
    bool operator==(const Finding&) const = default;
  };
  /// Return which nodes differ from most others, and in what, which lack libraries, and which have
  /// told no files although others have; with Refuse, also if none has. No texts: none does. Of
  /// equally many nodes, those with the first node count as most. A node alone differs from none.
  Finding finding(DigestCheck check = DigestCheck::Warn) const;

 private:
  void add_silent(Finding& finding, DigestCheck check) const;

  struct Group {  // nodes that have told the same
    NodeDigests digests;
    std::vector<std::pair<NodeId, std::string>> nodes;
  };
  std::vector<Group> groups_;
  std::vector<std::pair<NodeId, std::string>> silent_;  // nodes that have told no files
};

}  // namespace train
