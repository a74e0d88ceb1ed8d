#include "tests/sim/ingest.h"

#include <fmt/format.h>

namespace train::sim {

std::string socket_of(Attempt attempt, int node, const std::string& name) {
  return fmt::format("/attempt-{}/node-{}/{}", attempt.value, node, name);
}

bool is_on(const std::string& socket, Attempt attempt, int node) {
  return socket.starts_with(fmt::format("/attempt-{}/node-{}/", attempt.value, node));
}

std::string flight_of(Attempt attempt, const std::string& name, int number) {
  return fmt::format("attempt-{}.{}:{}", attempt.value, name, number);
}

bool is_of(const std::string& flight, Attempt attempt) {
  return flight.starts_with(fmt::format("attempt-{}.", attempt.value));
}

void SimIngestPool::start(const StartIngest& order) {
  if (ended_) return;
  const auto [known, fresh] = places_.try_emplace({order.dataset, order.slot});
  if (fresh) {
    known->second = std::make_shared<Place>(Place{order});
    return spawn(known->second);
  }
  known->second->order = order;
  known->second->wanted = true;
}

void SimIngestPool::stop(const StopIngest& order) {
  const auto known = places_.find({order.dataset, order.slot});
  if (known == places_.end()) return;
  const PlacePtr place = known->second;
  place->wanted = false;
  if (!place->process) return forget(place);
  sim_.after(sim_.between(Duration{0}, seconds(1)) * host_.slow,
             [this, place, name = place->process->name] {
               if (place->process && place->process->name == name) gone(place, true);
             });
}

void SimIngestPool::end() {
  ended_ = true;
  for (auto& [key, place] : places_) {
    if (place->process) sim_.check.ingest_gone(attempt_, place->process->name);
    place->process.reset();
    place->wanted = false;
  }
}

bool SimIngestPool::kill(int pick) {
  std::vector<PlacePtr> running;
  for (const auto& [key, place] : places_)
    if (place->process) running.push_back(place);
  if (running.empty()) return false;
  const PlacePtr& hit = running[static_cast<std::size_t>(pick) % running.size()];
  sim_.timeline.trace("fault: node {} attempt {} {} is killed", host_.index, attempt_.value,
                      hit->process->name);
  gone(hit, false);
  return true;
}

void SimIngestPool::spawn(const PlacePtr& place) {
  std::string name = fmt::format("ingest-{}-{:04}", place->order.dataset, place->order.slot);
  const int number = ++started_[{place->order.dataset, place->order.slot}];
  if (number > 1) name += fmt::format("-{}", number);
  place->process =
      Process{.name = name, .number = ++sim_.ingest_processes, .began = sim_.timeline.now()};
  const bool fails = sim_.faults_go_on() && sim_.timeline.random.chance(0.05);
  sim_.after(sim_.between(milliseconds(50), seconds(1)) * host_.slow, [this, place, name, fails] {
    if (ended_ || !place->process || place->process->name != name) return;
    if (fails) return gone(place, false);
    serve(place);
  });
}

void SimIngestPool::serve(const PlacePtr& place) {
  place->process->serves = true;
  const IngestPlace what = told(*place);
  sim_.check.ingest_serves(attempt_, what);
  if (sim_.mutant == Mutant::ServingForgotten && place->restarts.deaths() > 0) return;
  send(IngestUp{what.name, what.dataset, what.slot, what.socket, what.flight});
}

void SimIngestPool::gone(const PlacePtr& place, bool stopped) {
  const Process process = *std::exchange(place->process, std::nullopt);
  sim_.check.ingest_gone(attempt_, process.name);
  const IngestRestarts::Next next =
      stopped ? IngestRestarts::Next{} : place->restarts.ended(process.began, sim_.timeline.now());
  IngestEnded ended{.name = process.name,
                    .dataset = place->order.dataset,
                    .slot = place->order.slot,
                    .stopped = stopped,
                    .why = "it was killed by SIGKILL",
                    .deaths = place->restarts.deaths()};
  ended.again_ms = std::chrono::duration_cast<milliseconds>(next.wait).count();
  ended.often = next.often;
  send(std::move(ended));
  if (!place->wanted) return forget(place);
  sim_.after(next.wait, [this, place] {
    if (ended_ || place->process) return;
    if (place->wanted && places_.contains({place->order.dataset, place->order.slot})) spawn(place);
  });
}

void SimIngestPool::forget(const PlacePtr& place) {
  places_.erase({place->order.dataset, place->order.slot});
}

IngestPlace SimIngestPool::told(const Place& place) const {
  IngestPlace told{
      .dataset = place.order.dataset, .slot = place.order.slot, .deaths = place.restarts.deaths()};
  if (!place.process || !place.process->serves) return told;
  told.name = place.process->name;
  told.socket = socket_of(attempt_, host_.index, told.name);
  if (place.order.flight) told.flight = flight_of(attempt_, told.name, place.process->number);
  return told;
}

std::vector<IngestPlace> SimIngestPool::places() const {
  std::vector<IngestPlace> all;
  for (const auto& [key, place] : places_)
    if (place->wanted) all.push_back(told(*place));
  return all;
}

void SimIngestPool::sample() {
  const bool busy = sim_.plan.ingest_busy(sim_.timeline.now());
  for (auto& [key, place] : places_) {
    if (!place->process || !place->process->serves) continue;
    place->process->cpu += milliseconds(busy ? 900 : 100);
    IngestLoad load{.name = place->process->name, .dataset = key.first, .slot = key.second};
    load.cpu_us =
        std::chrono::duration_cast<std::chrono::microseconds>(place->process->cpu).count();
    send(std::move(load));
  }
}

}  // namespace train::sim
