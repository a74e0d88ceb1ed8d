// What an ingest worker says of its Flight server (IngestEndpoint::flight): a text for ranks on
// other nodes, with an address, a token and a certificate. Nobody between them reads it, or may
// show it. lib/data/serve/flight_module.h writes and reads it.
#pragma once

#include <cstddef>

namespace train {

inline constexpr std::size_t kIngestFlightBytesMax = 2048;

}  // namespace train
