// A rank's connection to an ingest worker on another node.
#pragma once

#include <memory>

#include "lib/data/serve/flight_module.h"

namespace train::data {

Result<std::unique_ptr<IngestPeer>> flight_peer(const FlightAccess& access);

}  // namespace train::data
