#include "lib/data/flight/flight_rank_channel.h"

#include <arrow/buffer.h>
#include <arrow/ipc/writer.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>
#include <fmt/format.h>

#include "lib/data/arrow_error.h"
#include "lib/data/serve/flight_module.h"

namespace train::data {
namespace {

constexpr std::string_view kSending = "sending to a rank";
/// What a rank may have sent that was not looked at yet: while a part is read, nothing is.
constexpr std::size_t kFramesMax = 2 * kAsksMax;
constexpr std::size_t kFramesBytesMax = 2 * kServeFrameBytesMax;

Error broken(const arrow::Status& status) {
  return {Errc::Unavailable, error_from(status, kSending).message};
}

}  // namespace

Result<std::unique_ptr<FlightRankChannel>> FlightRankChannel::make(
    arrow::flight::FlightMessageWriter& writer) {
  TRY(Wakeup wakeup, Wakeup::make());
  return std::unique_ptr<FlightRankChannel>(new FlightRankChannel(writer, std::move(wakeup)));
}

Result<Unit> FlightRankChannel::take(std::string_view metadata) {
  if (left_) return Error{Errc::Protocol, "the rank is no longer served"};
  TRY(ServeFrame frame, whole_frame(metadata));
  if (frame.type == ServeType::Ping) return write(frame_of(ServeType::Pong));
  {
    const std::lock_guard lock(mutex_);
    bytes_ += frame.fields.size();
    frames_.push_back(std::move(frame));
    if (frames_.size() > kFramesMax || bytes_ > kFramesBytesMax)
      return Error{Errc::ResourceExhausted, "a rank sends too much at once"};
  }
  wakeup_.wake();
  return Unit{};
}

void FlightRankChannel::end(Error why) {
  {
    const std::lock_guard lock(mutex_);
    ended_ = std::move(why);
  }
  wakeup_.wake();
}

Result<Unit> FlightRankChannel::exchange() {
  wakeup_.clear();
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return *ended_;
  }
  return send_waiting();
}

Result<bool> FlightRankChannel::next(ServeFrame& frame) {
  const std::lock_guard lock(mutex_);
  if (frames_.empty()) return false;
  frame = std::move(frames_.front());
  frames_.pop_front();
  bytes_ -= frame.fields.size();
  return true;
}

Result<std::int64_t> FlightRankChannel::send(Answer answer, const arrow::RecordBatch& rows) {
  std::int64_t bytes = 0;
  if (const auto counted = arrow::ipc::GetRecordBatchSize(rows, &bytes); !counted.ok())
    return error_from(counted, kSending);
  if (bytes > kFlightAnswerBytesMax)
    return Error{Errc::ResourceExhausted,
                 fmt::format("{} rows have {} MiB, and ingest workers on other nodes send {} MiB "
                             "at most",
                             rows.num_rows(), bytes >> 20, kFlightAnswerBytesMax >> 20),
                 "use a smaller batch_size, or more lanes"};
  const auto& schema = rows.schema();
  if (schema_ && !schema->Equals(*schema_))
    return Error{Errc::Corrupt, "maps make other columns than before",
                 "maps must make the same columns of every row"};
  if (frame_of(answer).size() > kServeFrameBytesMax)
    return Error{Errc::ResourceExhausted, "the errors of a part do not fit into a message"};
  waiting_ = Waiting{std::move(answer),
                     arrow::RecordBatch::Make(schema, rows.num_rows(), rows.columns()), bytes};
  TRY_VOID(send_waiting());
  return bytes;
}

/// Send the answer that waits, if there is credit for it.
Result<Unit> FlightRankChannel::send_waiting() {
  if (!waiting_) return Unit{};
  const auto slot = credit_.take(waiting_->bytes);
  if (!slot) return Unit{};
  Waiting next = std::move(*waiting_);
  waiting_.reset();
  next.answer.slot = *slot;
  const auto metadata = arrow::Buffer::FromString(frame_of(next.answer));
  const std::lock_guard lock(writing_);
  if (!schema_) {
    arrow::ipc::IpcWriteOptions options;
    options.use_threads = false;
    if (const auto begun = writer_.Begin(next.rows->schema(), options); !begun.ok())
      return broken(begun);
    schema_ = next.rows->schema();
  }
  const auto written = writer_.WriteWithMetadata(*next.rows, metadata);
  return written.ok() ? Result<Unit>(Unit{}) : Result<Unit>(broken(written));
}

Result<Unit> FlightRankChannel::write(std::string frame) {
  const std::lock_guard lock(writing_);
  const auto written = writer_.WriteMetadata(arrow::Buffer::FromString(std::move(frame)));
  return written.ok() ? Result<Unit>(Unit{}) : Result<Unit>(broken(written));
}

}  // namespace train::data
