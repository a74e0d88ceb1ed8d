// Which ingest workers serve the ranks of an attempt, as the launcher tells it to all of them. A
// newer version replaces an older one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/model/fields.h"

namespace train {

/// One ingest worker that serves, and how a rank reaches it: by one of the two.
struct IngestEndpoint {
  std::string name = {};     // ingest-train-0002: unique in its attempt, never used again
  std::string dataset = {};  // whose rows it serves
  std::string socket = {};   // the path of its Unix socket, if it is on this node; else empty
  std::string flight = {};   // host:port of its Flight server; empty: it has none
  bool operator==(const IngestEndpoint&) const = default;
  TRAIN_FIELDS(name, dataset, socket, flight)
};

struct IngestRoster {
  std::uint64_t version = 0;  // 0: there has been none
  std::vector<IngestEndpoint> endpoints = {};
  bool operator==(const IngestRoster&) const = default;
};

}  // namespace train
