#include "launcher/core/host_table.h"

#include <algorithm>
#include <utility>

namespace train {

HostTable::HostTable(const Placement& placement) {
  for (const PlacedNode& placed : placement.nodes) hosts_.emplace(placed.node, Host{placed});
  for (const auto& [node, host] : hosts_) count(host, 1);
}

void HostTable::count(const Host& host, int by) {
  const auto counts = [by](std::size_t& number, bool holds) {
    if (holds) number += static_cast<std::size_t>(by);
  };
  counts(counts_.preparing, std::holds_alternative<Preparing>(host.step));
  counts(counts_.started, std::holds_alternative<Started>(host.step));
  counts(counts_.there, host.presence == Presence::There);
  counts(counts_.to_find, host.presence == Presence::There && !host.has_workers);
}

void HostTable::set(Host& host, Step step) {
  count(host, -1);
  host.step = std::move(step);
  count(host, 1);
}

void HostTable::set(Host& host, Presence presence) {
  count(host, -1);
  host.presence = presence;
  count(host, 1);
}

HostTable HostTable::adopted(const Placement& placement) {
  HostTable table(placement);
  for (auto& [node, host] : table.hosts_) table.set(host, Prepared{});
  return table;
}

void HostTable::prepared(NodeId node) {
  Host& host = hosts_.at(node);
  if (std::holds_alternative<Preparing>(host.step)) set(host, Prepared{});
}

bool HostTable::is_prepared(NodeId node) const {
  return !std::holds_alternative<Preparing>(hosts_.at(node).step);
}

void HostTable::ordered(NodeId node, Start start) {
  Host& host = hosts_.at(node);
  if (!std::holds_alternative<Started>(host.step)) set(host, Ordered{std::move(start)});
}

const Start* HostTable::unanswered_order(NodeId node) const {
  const auto* ordered = std::get_if<Ordered>(&hosts_.at(node).step);
  return ordered == nullptr ? nullptr : &ordered->start;
}

bool HostTable::started(NodeId node) {
  Host& host = hosts_.at(node);
  if (std::holds_alternative<Started>(host.step)) return false;
  set(host, Started{});
  return true;
}

void HostTable::attached(NodeId node, bool has_workers) {
  Host& host = hosts_.at(node);
  count(host, -1);
  host.has_workers = has_workers;
  count(host, 1);
  orders_given(node);
}

HostTable::Found HostTable::found() const {
  if (counts_.to_find > 0) return Found::NotYet;
  const bool all = std::all_of(hosts_.begin(), hosts_.end(), [](const auto& host) {
    return host.second.has_workers.value_or(true);
  });
  return all ? Found::All : Found::NotAllStarted;
}

void HostTable::gone(NodeId node) {
  Host& host = hosts_.at(node);
  if (host.presence == Presence::There) set(host, Presence::Gone);
}

void HostTable::lost(NodeId node) { set(hosts_.at(node), Presence::Lost); }

}  // namespace train
