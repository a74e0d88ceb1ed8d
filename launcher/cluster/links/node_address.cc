#include "launcher/cluster/links/node_address.h"

#include <algorithm>

#include "lib/net/endpoint.h"

namespace train {
namespace {

bool is_loopback(const std::string& address) { return Endpoint::tcp(address, 0).is_loopback(); }

}  // namespace

std::string address_for_peers(const std::string& reached_at,
                              const std::vector<std::string>& offered) {
  const bool own = std::find(offered.begin(), offered.end(), reached_at) != offered.end();
  if (own && !is_loopback(reached_at)) return reached_at;
  const auto first = std::find_if_not(offered.begin(), offered.end(), is_loopback);
  if (first != offered.end()) return *first;
  return reached_at.empty() ? "127.0.0.1" : reached_at;
}

bool shares_address(const std::vector<std::string>& own, const std::vector<std::string>& offered) {
  return std::any_of(own.begin(), own.end(), [&](const std::string& address) {
    return !is_loopback(address) &&
           std::find(offered.begin(), offered.end(), address) != offered.end();
  });
}

bool on_this_machine(const std::vector<std::string>& own, const std::vector<std::string>& offered) {
  return std::all_of(own.begin(), own.end(), [&](const std::string& address) {
    return std::find(offered.begin(), offered.end(), address) != offered.end();
  });
}

}  // namespace train
