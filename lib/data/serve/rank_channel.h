// How an ingest worker is connected to one rank: over a Unix socket and shared memory
// (unix_rank_channel.h), or over Flight (lib/data/flight). Nothing here waits, except that sending
// over Flight may; one thread uses a channel.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>

#include "lib/data/serve/messages.h"

namespace train::data {

class RankChannel {
 public:
  virtual ~RankChannel() = default;
  /// Return what is ready to read when something has come.
  virtual int descriptor() const = 0;
  /// Return whether something waits until the descriptor is ready to write.
  virtual bool wants_to_write() const = 0;
  /// Send what waits, and read what has come. Unavailable if the rank has left.
  virtual Result<Unit> exchange() = 0;
  /// Return the next whole frame that was read; false if there is none.
  virtual Result<bool> next(ServeFrame& frame) = 0;

  /// The rank's newest pass lets so many bytes of answers wait.
  virtual void begin_pass(std::int64_t credit_bytes) = 0;
  /// Return whether another answer may be made. Frames that come may make room.
  virtual bool has_room() const = 0;
  /// Send rows, and return their bytes. The channel sets the slot and the messages of the answer.
  /// After an error nothing was sent, and the channel is as good as before.
  virtual Result<std::int64_t> send(Answer answer, const arrow::RecordBatch& rows) = 0;
  virtual Result<Unit> send(const Failed& failed) = 0;
  /// The rank needs a slot no longer. Protocol if it had none.
  virtual Result<Unit> release(std::uint32_t slot) = 0;
};

}  // namespace train::data
