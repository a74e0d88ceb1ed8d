#include "lib/data/serve/flight_module.h"

#include "lib/data/flight/flight_peer.h"
#include "lib/data/flight/flight_server.h"

extern "C" __attribute__((visibility("default"))) void trainrun_flight_serve_1(
    const train::data::FlightServing& serving,
    train::Result<std::unique_ptr<train::data::FlightServer>>* server) {
  *server = train::data::serve_flight(serving);
}

extern "C" __attribute__((visibility("default"))) void trainrun_flight_connect_1(
    const train::data::FlightAccess& access,
    train::Result<std::unique_ptr<train::data::IngestPeer>>* peer) {
  *peer = train::data::flight_peer(access);
}
