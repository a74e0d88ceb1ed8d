// The Flight server of an ingest worker.
#pragma once

#include <memory>

#include "lib/data/serve/flight_module.h"

namespace train::data {

Result<std::unique_ptr<FlightServer>> serve_flight(const FlightServing& serving);

}  // namespace train::data
