#include "daemon/supervisor/workers/once_per_node.h"

#include "lib/base/utf8.h"

namespace train {

OncePerNode::Replies OncePerNode::begin(Rank rank, const std::string& name) {
  const auto [entry, first] = all_.try_emplace(name);
  if (first) return {{rank, OnceReply{name, "run", ""}}};
  switch (entry->second.state) {
    case Once::State::Running:
      entry->second.waiting.insert(rank);
      return {};
    case Once::State::Done:
      return {{rank, OnceReply{name, "done", ""}}};
    case Once::State::Failed:
      return {{rank, OnceReply{name, "failed", entry->second.error}}};
  }
  return {};
}

OncePerNode::Replies OncePerNode::end(const OnceEnd& message) {
  Once& once = all_[message.name];
  once.state = message.error.empty() ? Once::State::Done : Once::State::Failed;
  once.error = utf8_text(message.error, kErrorBytesMax);
  Replies replies;
  for (Rank rank : std::exchange(once.waiting, {})) {
    for (auto& reply : begin(rank, message.name)) replies.push_back(std::move(reply));
  }
  return replies;
}

}  // namespace train
