#include "launcher/core/host_table.h"

#include <algorithm>
#include <utility>

namespace train {

HostTable::HostTable(const Placement& placement) {
  for (const PlacedNode& placed : placement.nodes) hosts_.emplace(placed.node, Host{placed});
}

HostTable HostTable::adopted(const Placement& placement) {
  HostTable table(placement);
  for (auto& [node, host] : table.hosts_) host.step = Prepared{};
  return table;
}

void HostTable::prepared(NodeId node) {
  Host& host = hosts_.at(node);
  if (std::holds_alternative<Preparing>(host.step)) host.step = Prepared{};
}

bool HostTable::is_prepared(NodeId node) const {
  return !std::holds_alternative<Preparing>(hosts_.at(node).step);
}

bool HostTable::all_prepared() const {
  return std::all_of(hosts_.begin(), hosts_.end(),
                     [this](const auto& host) { return is_prepared(host.first); });
}

void HostTable::ordered(NodeId node, Start start) {
  Host& host = hosts_.at(node);
  if (!std::holds_alternative<Started>(host.step)) host.step = Ordered{std::move(start)};
}

const Start* HostTable::unanswered_order(NodeId node) const {
  const auto* ordered = std::get_if<Ordered>(&hosts_.at(node).step);
  return ordered == nullptr ? nullptr : &ordered->start;
}

bool HostTable::started(NodeId node) {
  Host& host = hosts_.at(node);
  if (std::holds_alternative<Started>(host.step)) return false;
  host.step = Started{};
  return true;
}

bool HostTable::all_started() const {
  return std::all_of(hosts_.begin(), hosts_.end(), [](const auto& host) {
    return std::holds_alternative<Started>(host.second.step);
  });
}

void HostTable::attached(NodeId node, bool has_workers) {
  hosts_.at(node).has_workers = has_workers;
  orders_given(node);
}

HostTable::Found HostTable::found() const {
  Found found = Found::All;
  for (const auto& [node, host] : hosts_) {
    if (!host.has_workers && host.presence == Presence::There) return Found::NotYet;
    if (!host.has_workers.value_or(true)) found = Found::NotAllStarted;
  }
  return found;
}

void HostTable::gone(NodeId node) {
  Presence& presence = hosts_.at(node).presence;
  if (presence == Presence::There) presence = Presence::Gone;
}

bool HostTable::all_gone() const {
  return std::all_of(hosts_.begin(), hosts_.end(),
                     [](const auto& host) { return host.second.presence != Presence::There; });
}

void HostTable::lost(NodeId node) { hosts_.at(node).presence = Presence::Lost; }

}  // namespace train
