// once_per_node: of the ranks on this node that call it with the same name, the first does the work
// and the others wait for its outcome. Pure.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/ids.h"
#include "lib/wire/worker_messages.h"

namespace train {

class OncePerNode {
 public:
  /// Limit on the error that the others are told, of which each is sent a copy.
  static constexpr std::size_t kErrorBytesMax = 64u << 10;
  using Replies = std::vector<std::pair<Rank, OnceReply>>;
  Replies begin(Rank rank, const std::string& name);
  Replies end(const OnceEnd& message);

 private:
  struct Once {
    enum class State { Running, Done, Failed } state = State::Running;
    std::string error;
    std::set<Rank> waiting;
  };
  std::map<std::string, Once> all_;
};

}  // namespace train
