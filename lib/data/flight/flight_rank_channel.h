// A rank on another node: one Flight call, of which one thread takes what the rank sends, and
// another one serves it.
#pragma once

#include <arrow/flight/server.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "lib/data/flight/credit.h"
#include "lib/data/flight/wakeup.h"
#include "lib/data/serve/rank_channel.h"

namespace train::data {

class FlightRankChannel final : public RankChannel {
 public:
  /// `writer` must outlive it.
  static Result<std::unique_ptr<FlightRankChannel>> make(
      arrow::flight::FlightMessageWriter& writer);

  // ---- for the thread that takes what the rank sends
  /// Tell the rank that we are here.
  Result<Unit> greet() { return write(frame_of(ServeType::Pong)); }
  /// Take a message of the rank. Pings are answered here.
  Result<Unit> take(std::string_view metadata);
  /// Nothing more comes.
  void end(Error why);
  /// The rank is not served any longer: take() refuses what it sends.
  void leave() { left_ = true; }

  // ---- for the thread that serves
  int descriptor() const override { return wakeup_.descriptor(); }
  bool wants_to_write() const override { return false; }
  Result<Unit> exchange() override;
  Result<bool> next(ServeFrame& frame) override;
  void begin_pass(std::int64_t credit_bytes) override {
    credit_.set_bytes_max(credit_bytes);
    waiting_.reset();
  }
  bool has_room() const override { return !waiting_ && credit_.has_room(); }
  Result<std::int64_t> send(Answer answer, const arrow::RecordBatch& rows) override;
  Result<Unit> send(const Failed& failed) override { return write(frame_of(failed)); }
  Result<Unit> release(std::uint32_t slot) override { return credit_.release(slot); }

 private:
  /// An answer for which there is no credit yet.
  struct Waiting {
    Answer answer = {};
    std::shared_ptr<arrow::RecordBatch> rows = {};
    std::int64_t bytes = 0;
  };
  FlightRankChannel(arrow::flight::FlightMessageWriter& writer, Wakeup wakeup)
      : writer_(writer), wakeup_(std::move(wakeup)) {}
  Result<Unit> write(std::string frame);
  Result<Unit> send_waiting();

  arrow::flight::FlightMessageWriter& writer_;
  const Wakeup wakeup_;

  std::atomic<bool> left_ = false;
  std::mutex writing_;                     // of messages, one after the other
  std::shared_ptr<arrow::Schema> schema_;  // of the first answer

  std::mutex mutex_;  // guards what follows
  std::deque<ServeFrame> frames_;
  std::size_t bytes_ = 0;  // of them
  std::optional<Error> ended_;

  // Only the thread that serves uses these.
  Credit credit_;
  std::optional<Waiting> waiting_;
};

}  // namespace train::data
