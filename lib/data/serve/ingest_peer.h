// A rank's connection to one ingest worker. Nothing here waits: the caller polls.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/data/serve/part_reader.h"

namespace train::data {

struct PartAnswer {
  std::uint64_t sequence = 0;  // 0: an error of the whole pass
  Result<PartRows> part;
};

class IngestPeer {
 public:
  virtual ~IngestPeer() = default;
  /// Return what is ready to read when something has come.
  virtual int descriptor() const = 0;
  /// Return whether something waits until the descriptor is ready to write.
  virtual bool wants_to_write() const = 0;
  /// Return whether the ingest worker can be asked yet: something of it has come.
  virtual bool is_up() const { return true; }
  virtual Result<Unit> open(const OpenPass& pass) = 0;
  virtual Result<Unit> ask(const Ask& ask) = 0;
  /// Send what waits, and append the answers that have come. After an error, the peer is of no use.
  virtual Result<Unit> exchange(std::vector<PartAnswer>& answers) = 0;
};

/// Connect to an ingest worker on this node. Its answers are views of slots as long as few bytes
/// are held, and copies otherwise.
Result<std::unique_ptr<IngestPeer>> connect_unix_peer(const std::string& path);

}  // namespace train::data
