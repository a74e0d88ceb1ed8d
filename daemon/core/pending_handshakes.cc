#include "daemon/core/pending_handshakes.h"

#include <algorithm>

namespace train {

std::optional<std::uint64_t> PendingHandshakes::begin(std::uint64_t id,
                                                      const std::string& address) {
  by_address_[address].push_back(id);
  addresses_[id] = address;
  if (addresses_.size() <= kMax) return std::nullopt;
  const auto most = std::max_element(
      by_address_.begin(), by_address_.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  const std::uint64_t victim = most->second.front();
  end(victim);
  return victim;
}

void PendingHandshakes::end(std::uint64_t id) {
  const auto known = addresses_.find(id);
  if (known == addresses_.end()) return;
  const auto of_address = by_address_.find(known->second);
  std::erase(of_address->second, id);
  if (of_address->second.empty()) by_address_.erase(of_address);
  addresses_.erase(known);
}

}  // namespace train
