// The ingest workers of one simulated attempt on one node. Does what
// daemon/supervisor/processes/ingest_pool.cc does, with the same IngestRestarts.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/supervisor/core/ingest_restarts.h"
#include "tests/sim/sim.h"

namespace train::sim {

class SimIngestPool {
 public:
  SimIngestPool(Sim& sim, SimHost& host, Attempt attempt, std::function<void(SimFrame)> send)
      : sim_(sim), host_(host), attempt_(attempt), send_(std::move(send)) {}

  void start(const StartIngest& order);
  void stop(const StopIngest& order);
  /// All of them die, and no more are started.
  void end();
  /// Kill one of them. Return false if there is none.
  bool kill(int pick);
  std::vector<IngestPlace> places() const;
  /// Tell the launcher how busy they are.
  void sample();

 private:
  struct Process {
    std::string name;
    int number = 0;  // in the simulation; part of its Flight server's address
    bool serves = false;
    TimePoint began;
    Duration cpu{};
  };
  struct Place {
    StartIngest order;
    bool wanted = true;
    IngestRestarts restarts = {};
    std::optional<Process> process = {};
  };
  using PlacePtr = std::shared_ptr<Place>;  // also of events to come
  using Key = std::pair<std::string, std::int32_t>;

  void spawn(const PlacePtr& place);
  void serve(const PlacePtr& place);
  void gone(const PlacePtr& place, bool stopped);
  void forget(const PlacePtr& place);
  IngestPlace told(const Place& place) const;
  template <class Message>
  void send(Message message) {
    send_(frame_of(attempt_, std::move(message)));
  }

  Sim& sim_;
  SimHost& host_;
  const Attempt attempt_;
  std::function<void(SimFrame)> send_;
  std::map<Key, PlacePtr> places_;
  std::map<Key, int> started_;
  bool ended_ = false;
};

/// Return where an ingest worker of the attempt on the node is reached, and whether such an address
/// is one of the attempt's.
std::string socket_of(Attempt attempt, int node, const std::string& name);
bool is_on(const std::string& socket, Attempt attempt, int node);
std::string flight_of(Attempt attempt, const std::string& name, int number);
bool is_of(const std::string& flight, Attempt attempt);

}  // namespace train::sim
