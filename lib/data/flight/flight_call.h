// One Flight call of a rank: a thread reads what comes, and another one sends what is queued, since
// either may wait for the network. The call belongs to both threads and to who uses it, and ends
// when that one leaves it: at once, except while it is being made, which goes on by itself.
#pragma once

#include <arrow/flight/client.h>

#include <bitset>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/data/flight/wakeup.h"
#include "lib/data/serve/flight_module.h"

namespace train::data {

class FlightCall : public std::enable_shared_from_this<FlightCall> {
 public:
  /// Begin to connect.
  static Result<std::shared_ptr<FlightCall>> start(const FlightAccess& access,
                                                   const arrow::flight::Location& location);
  /// End the call, and wait for its threads, unless it is still being made.
  void leave();

  int descriptor() const { return wakeup_.descriptor(); }
  bool is_up() const;
  /// At one time so many bytes of answers may wait in this process.
  void set_credit(std::int64_t bytes);
  /// Queue a frame. ResourceExhausted if too many wait.
  Result<Unit> send(std::string frame);
  /// Return what has come, and give its slots back. `ended`: why nothing more comes, if so.
  std::vector<PartAnswer> take(std::optional<Error>& ended);

 private:
  struct Received {
    PartAnswer answer;
    std::optional<std::uint32_t> slot = {};
    std::int64_t bytes = 0;
  };
  FlightCall(FlightAccess access, const arrow::flight::Location& location, Wakeup wakeup)
      : access_(std::move(access)), location_(location), wakeup_(std::move(wakeup)) {}

  void read();
  arrow::Status connect();
  Error read_messages();
  Result<Unit> received(const arrow::flight::FlightStreamChunk& chunk);
  void write();
  void end(Error why);

  const FlightAccess access_;
  const arrow::flight::Location location_;
  const Wakeup wakeup_;
  std::unique_ptr<arrow::flight::FlightClient> client_;
  std::unique_ptr<arrow::flight::FlightStreamWriter> writer_;
  std::unique_ptr<arrow::flight::FlightStreamReader> reader_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool connected_ = false;  // the two above are there
  bool up_ = false;         // the ingest worker has said something
  bool leaving_ = false;
  int threads_ = 0;
  std::deque<std::string> outbox_;
  std::deque<Received> inbox_;
  std::int64_t inbox_bytes_ = 0;
  std::int64_t credit_bytes_ = 0;
  std::bitset<kSlotsMax> slots_;  // of answers in the inbox
  std::optional<Error> ended_;
};

}  // namespace train::data
