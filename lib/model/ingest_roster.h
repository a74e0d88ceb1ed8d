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
  /// ingest-train-0002: unique in its attempt. Used again only for a process that is reached
  /// otherwise, by a supervisor that took the place of one whose node had gone.
  std::string name = {};
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
  TRAIN_FIELDS(version, endpoints)
};

/// What a process that was started as an ingest worker is to do.
struct IngestRole {
  std::string name = {};  // empty: it is none
  std::string dataset = {};
  std::string socket = {};  // the path to listen on, in a folder of mode 0700
  bool flight = false;      // serve ranks of other nodes, too
  bool operator==(const IngestRole&) const = default;
  TRAIN_FIELDS(name, dataset, socket, flight)
};

/// One ingest worker's place, as its supervisor knows it. Processes come and go in it.
struct IngestPlace {
  std::string dataset = {};
  std::int32_t slot = 0;     // from 1 on, within the attempt and the dataset
  std::string name = {};     // of the process that serves; empty: none does now
  std::string socket = {};   // of that process
  std::string flight = {};   // likewise
  std::uint32_t deaths = 0;  // of processes so far
  bool operator==(const IngestPlace&) const = default;
  TRAIN_FIELDS(dataset, slot, name, socket, flight, deaths)
};

/// Limits on what ingest workers say.
inline constexpr std::int32_t kIngestWorkersMax = 256;  // of a dataset
inline constexpr std::size_t kIngestAddressBytesMax = 300;

}  // namespace train
