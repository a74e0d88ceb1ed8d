// The part of Checkers that looks at ingest workers and what ranks are told of them.
#include <algorithm>

#include "tests/sim/checkers.h"
#include "tests/sim/ingest.h"

namespace train::sim {
namespace {

constexpr Duration kHeardWithin = seconds(5);  // by a rank that has just said hello
/// As long as a supervisor waits before it replaces one that dies again and again, and more.
constexpr Duration kReplacedWithin = seconds(70);

}  // namespace

// S21: a process is told from all others of its attempt by its name and its Flight server. Where
// there is none, all are on the ranks' node, which has one supervisor for the attempt.
void Checkers::ingest_serves(Attempt attempt, const IngestPlace& place) {
  AttemptView& seen = view(attempt);
  seen.ingest_changed = timeline_.now();
  if (!seen.served_as.insert({place.name, place.flight}).second)
    return fail("S21", fmt::format("{} of attempt {} serves a second time at '{}'", place.name,
                                   attempt.value, place.flight));
  seen.served.insert(place.name);
  seen.serving.insert(place.name);
}

void Checkers::ingest_gone(Attempt attempt, const std::string& name) {
  AttemptView& seen = view(attempt);
  seen.ingest_changed = seen.ingest_died = timeline_.now();
  seen.served.insert(name);
  seen.serving.erase(name);
}

// S21: a rank's roster never names an ingest worker of another attempt, nor a socket of another
// node, nor the same one twice.
void Checkers::roster_arrived(const WorkerLocation& location, const IngestRoster& roster) {
  std::set<std::string> names;
  for (const IngestEndpoint& endpoint : roster.endpoints) {
    const bool of_attempt =
        (endpoint.socket.empty() || is_on(endpoint.socket, location.attempt, location.node)) &&
        (endpoint.flight.empty() || is_of(endpoint.flight, location.attempt)) &&
        !(endpoint.socket.empty() && endpoint.flight.empty());
    if (!of_attempt || !view(location.attempt).served.contains(endpoint.name))
      return fail("S21", fmt::format("rank {} of attempt {} is told of {}, at '{}' and '{}'",
                                     location.rank().value, location.attempt.value, endpoint.name,
                                     endpoint.socket, endpoint.flight));
    if (!names.insert(endpoint.name).second)
      return fail("S21", fmt::format("a roster names {} twice", endpoint.name));
  }
}

// S21: there are to be at least as many as the spec says, unless there is room for fewer, and at
// most.
void Checkers::ingest_counted(const IngestChanged& changed) {
  const IngestSpec& spec = plan_.spec.datasets.at(changed.dataset).ingest;
  if (changed.wanted < spec.workers.min || changed.wanted > spec.workers.max)
    fail("S21", fmt::format("there are to be {} ingest workers, {} to {} were asked for",
                            changed.wanted, spec.workers.min, spec.workers.max));
}

// L8: when nothing disturbs an attempt, each of its ranks knows exactly the ingest workers that
// serve, and none is missing for good.
void Checkers::compare_rosters(Attempt attempt, int wanted) {
  const AttemptView& seen = view(attempt);
  const TimePoint now = timeline_.now();
  if (now - seen.ingest_changed < kHeardWithin) return;
  // A node without ranks whose supervisor has ended has none until the next attempt.
  const bool all_serve = plan_.spec.datasets.at("train").ingest.nodes.empty();
  if (all_serve && now - seen.ingest_died > kReplacedWithin &&
      std::cmp_not_equal(seen.serving.size(), wanted))
    return fail("L8", fmt::format("{} ingest workers serve, there are to be {}",
                                  seen.serving.size(), wanted));
  for (const Rank rank : seen.live) {
    const SimWorker& worker = *seen.members[static_cast<std::size_t>(rank.value)];
    const auto since = worker.listens_since();
    if (!since || now - *since < kHeardWithin) continue;
    std::set<std::string> names;
    for (const IngestEndpoint& endpoint : worker.roster().endpoints) names.insert(endpoint.name);
    ++rosters_compared_;
    if (names != seen.serving)
      return fail("L8", fmt::format("rank {} of attempt {} knows {} ingest workers, {} serve",
                                    rank.value, attempt.value, names.size(), seen.serving.size()));
  }
}

}  // namespace train::sim
