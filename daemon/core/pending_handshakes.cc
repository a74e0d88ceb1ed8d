#include "daemon/core/pending_handshakes.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

namespace train {
namespace {

std::string network_of(std::string address) {
  if (address.starts_with('[') && address.ends_with(']'))
    address = address.substr(1, address.size() - 2);
  constexpr std::size_t kNetworkBytes = 8;
  in6_addr bytes{};
  const bool v6 = ::inet_pton(AF_INET6, address.c_str(), &bytes) == 1;
  if (!v6 || IN6_IS_ADDR_V4MAPPED(&bytes)) return address;
  return {reinterpret_cast<const char*>(&bytes), kNetworkBytes};
}

}  // namespace

std::optional<std::uint64_t> PendingHandshakes::begin(std::uint64_t id,
                                                      const std::string& address) {
  const std::string network = network_of(address);
  by_address_[network].push_back(id);
  addresses_[id] = network;
  if (addresses_.size() <= kMax) return std::nullopt;
  const auto most =
      std::max_element(by_address_.begin(), by_address_.end(), [](const auto& a, const auto& b) {
        return std::pair(a.second.size(), b.second.front()) <
               std::pair(b.second.size(), a.second.front());
      });
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
