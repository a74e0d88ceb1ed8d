// A worker's session without a supervisor, for tests of sdk/data. The test sets the answers of
// worker_info(), get_checkpoint() and all_gather(), and the session records what it is told. Link
// it in place of train_sdk.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sdk/client/session.h"

namespace train::fakes {

struct Position {
  std::string dataset;
  std::uint64_t epoch = 0;
  std::int64_t rows_consumed = 0;
  bool operator==(const Position&) const = default;
};

struct FakeSession {
  sdk::WorkerInfo info;
  std::optional<Dict> checkpoint_metadata;  // unset: there is no checkpoint
  /// (name, this rank's bytes) → all ranks' bytes. By default all ranks give the same bytes.
  std::function<std::vector<std::string>(const std::string&, const std::string&)> gather;
  IngestRoster ingest_roster;                        // the answer of ingest_roster()
  std::vector<std::string> collectives;              // names, as called
  std::vector<Position> positions;                   // as told
  std::shared_ptr<const Dict> order;                 // of the last one
  std::map<std::string, std::string> preprocessors;  // that checkpoints are to keep, by dataset

  std::optional<Position> last_position() const {
    return positions.empty() ? std::nullopt : std::optional<Position>(positions.back());
  }
};

/// Return the session that answers the SDK's functions on every thread. A test assigns a new one
/// first.
FakeSession& session();

}  // namespace train::fakes
