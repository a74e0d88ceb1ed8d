#include "launcher/core/ingest_board.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace train {
namespace {

std::string count_of(int workers) {
  return fmt::format("{} ingest {}", workers, workers == 1 ? "worker" : "workers");
}

bool is_on_many_nodes(const Placement& placement) {
  return placement.nodes.size() > 1 ||
         std::any_of(
             placement.ingest.begin(), placement.ingest.end(),
             [&](const PlacedIngest& place) { return place.node != placement.nodes.front().node; });
}

std::string percent(double share) { return fmt::format("{:.0f} %", share * 100); }

/// Say that one has died: in one line, or, if the same happens again and again, with what it said.
Note note_of(const IngestGone& event, const std::string& node_name) {
  std::string text =
      fmt::format("an ingest worker for {} on {} ended: {}; ", event.dataset, node_name, event.why);
  if (!event.often) return {NoteLevel::Info, text + "another one is started"};
  text += fmt::format("{} have ended in its place so far, so the next one is started in {}",
                      event.deaths, format_duration(event.again));
  if (!event.last_lines.empty())
    text += fmt::format("; its last lines:\n  {}", fmt::join(event.last_lines, "\n  "));
  return {NoteLevel::Warning, std::move(text)};
}

}  // namespace

IngestBoard::IngestBoard(const JobSpec& spec, Attempt attempt, const Placement& placement,
                         bool adopted)
    : attempt_(attempt), many_nodes_(is_on_many_nodes(placement)), held_(adopted) {
  for (const PlacedNode& placed : placement.nodes) nodes_.insert(placed.node);
  ranks_ = nodes_;
  std::map<std::string, std::vector<Place>> places;
  for (const PlacedIngest& place : placement.ingest) {
    places[place.dataset].push_back({place.node});
    nodes_.insert(place.node);
  }
  for (auto& [name, of_dataset] : places) {
    const auto in_spec = spec.datasets.find(name);
    if (in_spec == spec.datasets.end()) continue;
    const IngestSpec& ingest = in_spec->second.ingest;
    const int most = std::min<int>(static_cast<int>(of_dataset.size()), ingest.workers.max);
    of_dataset.resize(static_cast<std::size_t>(most));
    const int wanted = std::min(ingest.workers.min, most);
    datasets_.emplace(
        name, Dataset{ingest, std::move(of_dataset), wanted, IngestPolicy(ingest, most, wanted)});
  }
}

IngestBoard::Dataset* IngestBoard::find(const std::string& dataset) {
  const auto found = datasets_.find(dataset);
  return found == datasets_.end() ? nullptr : &found->second;
}

IngestBoard::Place* IngestBoard::find(NodeId node, const std::string& dataset, std::int32_t slot) {
  Dataset* found = find(dataset);
  if (found == nullptr || slot < 1 || std::cmp_greater(slot, found->places.size())) return nullptr;
  Place& place = found->places[static_cast<std::size_t>(slot) - 1];
  return place.node == node ? &place : nullptr;
}

/// Order what the place should have, if its node takes orders.
void IngestBoard::order(const std::string& name, const Dataset& dataset, std::int32_t slot,
                        Effects& effects) const {
  const NodeId node = dataset.places[static_cast<std::size_t>(slot) - 1].node;
  if (held_ || !started_.contains(node)) return;
  if (in_use(dataset, slot))
    effects.emplace_back(KeepIngest{attempt_, node, name, slot, many_nodes_});
  else
    effects.emplace_back(EndIngest{attempt_, node, name, slot});
}

IngestBoard::Effects IngestBoard::node_started(NodeId node) {
  Effects effects;
  if (!nodes_.contains(node) || !started_.insert(node).second) return effects;
  for (const auto& [name, dataset] : datasets_)
    for (std::int32_t slot = 1; slot <= dataset.wanted; ++slot)
      if (dataset.places[static_cast<std::size_t>(slot) - 1].node == node)
        order(name, dataset, slot, effects);
  return effects;
}

IngestBoard::Effects IngestBoard::attached(const SupervisorAttached& event) {
  Effects effects;
  if (empty() || !nodes_.contains(event.node)) return effects;
  if (event.has_workers) started_.insert(event.node);
  version_ = std::max(version_, event.roster_version);
  // What its supervisor does not list has ended, and what it lists is so now.
  for (auto& [name, dataset] : datasets_)
    for (Place& place : dataset.places)
      if (place.node == event.node) place.told = {}, place.known = false;
  for (const IngestPlace& told : event.ingest) {
    Place* place = find(event.node, told.dataset, told.slot);
    if (place == nullptr) continue;
    place->known = true;
    place->deaths = std::max(place->deaths, told.deaths);
    if (!told.name.empty()) place->told = told;
  }
  if (held_) return effects;
  for (const auto& [name, dataset] : datasets_)
    for (std::int32_t slot = 1; std::cmp_less_equal(slot, dataset.places.size()); ++slot)
      if (dataset.places[static_cast<std::size_t>(slot) - 1].node == event.node)
        order(name, dataset, slot, effects);
  roster_changed(effects);
  tell_changes(effects);
  return effects;
}

IngestBoard::Effects IngestBoard::found() {
  Effects effects;
  if (!std::exchange(held_, false) || empty()) return effects;
  for (auto& [name, dataset] : datasets_) {
    const auto known = std::count_if(dataset.places.begin(), dataset.places.end(),
                                     [](const Place& place) { return place.known; });
    const int most = static_cast<int>(dataset.places.size());
    const int least = std::min(dataset.spec.workers.min, most);
    dataset.wanted = std::clamp(static_cast<int>(known), least, most);
    dataset.policy.changed(dataset.wanted);
    for (std::int32_t slot = 1; slot <= most; ++slot) order(name, dataset, slot, effects);
  }
  roster_changed(effects);
  tell_changes(effects);
  return effects;
}

IngestBoard::Effects IngestBoard::node_gone(NodeId node) {
  nodes_.erase(node);
  ranks_.erase(node);
  return node_lost(node);
}

IngestBoard::Effects IngestBoard::node_lost(NodeId node) {
  Effects effects;
  started_.erase(node);
  bool served = false;
  for (auto& [name, dataset] : datasets_) {
    for (Place& place : dataset.places) {
      if (place.node != node) continue;
      served |= !place.told.name.empty();
      place.told = {};
      place.known = false;
    }
  }
  if (served) roster_changed(effects);
  return effects;
}

IngestBoard::Effects IngestBoard::on(const IngestServes& event, const std::string& node_name) {
  Effects effects;
  Place* place = find(event.node, event.place.dataset, event.place.slot);
  if (place == nullptr || !nodes_.contains(event.node)) return effects;
  place->known = true;
  place->deaths = std::max(place->deaths, event.place.deaths);
  if (place->told.name == event.place.name) return effects;  // said again
  place->told = event.place;
  Dataset& dataset = *find(event.place.dataset);
  if (!held_ && !in_use(dataset, event.place.slot))
    order(event.place.dataset, dataset, event.place.slot, effects);
  roster_changed(effects);
  if (!held_)
    effects.emplace_back(Note{NoteLevel::Info, fmt::format("ingest worker {} serves on {}",
                                                           event.place.name, node_name)});
  tell_changes(effects);
  return effects;
}

IngestBoard::Effects IngestBoard::on(const IngestGone& event, const std::string& node_name) {
  Effects effects;
  Place* place = find(event.node, event.dataset, event.slot);
  if (place == nullptr) return effects;
  find(event.dataset)->policy.worker_gone(event.name);
  place->deaths = std::max(place->deaths, event.deaths);
  if (event.stopped) place->known = false;
  if (!event.name.empty() && place->told.name == event.name) {
    place->told = {};
    roster_changed(effects);
  }
  if (!event.stopped) effects.emplace_back(note_of(event, node_name));
  tell_changes(effects);
  return effects;
}

void IngestBoard::on(const IngestSampled& event, TimePoint now) {
  const Place* place = find(event.node, event.dataset, event.slot);
  if (place == nullptr || place->told.name != event.name) return;
  find(event.dataset)->policy.worker_used(event.name, event.cpu, now);
}

void IngestBoard::on(const DatasetsRead& event, TimePoint now) {
  for (const DatasetsRead::Reader& reader : event.readers)
    if (Dataset* dataset = find(reader.dataset))
      dataset->policy.rank_waited(reader.rank, reader.waited, event.taken, now);
}

void IngestBoard::change(const std::string& name, Dataset& dataset, int wanted, TimePoint now,
                         Effects& effects) {
  const int before = std::exchange(dataset.wanted, wanted);
  const bool more = wanted > before;
  effects.emplace_back(Note{
      NoteLevel::Info,
      fmt::format("{} for {} instead of {}: workers wait {} of their time for its rows, "
                  "ingest workers use {} of their CPUs",
                  count_of(wanted), name, before, percent(dataset.policy.waiting(now).value_or(0)),
                  percent(dataset.policy.busy(now).value_or(0)))});
  // Ranks leave the one that ends before it ends.
  if (!more) roster_changed(effects);
  order(name, dataset, std::max(before, wanted), effects);
}

IngestBoard::Effects IngestBoard::advance(TimePoint now) {
  Effects effects;
  if (held_) return effects;
  for (auto& [name, dataset] : datasets_) {
    // One that is just being started has not shown yet whether it suffices.
    if (serving(name) < dataset.wanted) {
      dataset.policy.changed(dataset.wanted);
      continue;
    }
    const int wanted = dataset.policy.advance(now);
    if (wanted != dataset.wanted) change(name, dataset, wanted, now, effects);
  }
  tell_changes(effects);
  return effects;
}

int IngestBoard::wanted() const {
  int all = 0;
  for (const auto& [name, dataset] : datasets_) all += dataset.wanted;
  return all;
}

int IngestBoard::wanted(const std::string& dataset) const {
  const auto found = datasets_.find(dataset);
  return found == datasets_.end() ? 0 : found->second.wanted;
}

int IngestBoard::serving(const std::string& dataset) const {
  const auto found = datasets_.find(dataset);
  if (found == datasets_.end()) return 0;
  const auto& places = found->second.places;
  return static_cast<int>(std::count_if(
      places.begin(), places.end(), [](const Place& place) { return !place.told.name.empty(); }));
}

IngestRoster IngestBoard::roster_for(std::optional<NodeId> node) const {
  IngestRoster roster{.version = version_};
  for (const auto& [name, dataset] : datasets_) {
    for (std::int32_t slot = 1; slot <= dataset.wanted; ++slot) {
      const Place& place = dataset.places[static_cast<std::size_t>(slot) - 1];
      const bool here = place.node == node;
      if (place.told.name.empty() || (!here && place.told.flight.empty())) continue;
      roster.endpoints.push_back({.name = place.told.name,
                                  .dataset = name,
                                  .socket = here ? place.told.socket : "",
                                  .flight = here ? "" : place.told.flight});
    }
  }
  return roster;
}

void IngestBoard::roster_changed(Effects& effects) {
  if (held_) return;
  ++version_;
  std::set<NodeId> have_own;
  for (const auto& [name, dataset] : datasets_)
    for (const Place& place : dataset.places) have_own.insert(place.node);
  const SharedValue<IngestRoster> others(roster_for(std::nullopt));
  for (const NodeId node : ranks_)
    effects.emplace_back(
        SendRoster{attempt_, node,
                   have_own.contains(node) ? SharedValue<IngestRoster>(roster_for(node)) : others});
}

/// Say how many there are, of each dataset of which that has changed.
void IngestBoard::tell_changes(Effects& effects) {
  if (held_) return;
  for (auto& [name, dataset] : datasets_) {
    std::uint32_t deaths = 0;
    for (const Place& place : dataset.places) deaths += place.deaths;
    const IngestChanged now{attempt_, name, dataset.wanted, serving(name), deaths};
    if (now == dataset.said) continue;
    dataset.said = now;
    effects.emplace_back(now);
  }
}

}  // namespace train
