#include "sdk/data/batch_stream.h"

#include <arrow/record_batch.h>
#include <arrow/util/byte_size.h>
#include <fmt/format.h>

#include <exception>
#include <new>

#include "lib/base/thread.h"
#include "lib/data/read/stop_reading.h"
#include "sdk/client/progress.h"
#include "sdk/client/session.h"
#include "sdk/data/failure.h"

namespace train {

BatchStream::BatchStream(Pass pass, std::unique_ptr<data::BatchSource> reader)
    : pass_(std::move(pass)),
      reader_(std::move(reader)),
      meter_(pass_.meters),
      exceptions_at_start_(std::uncaught_exceptions()) {}

BatchStream::~BatchStream() {
  stop();
  meter_.leave();
  if (begun_ && !over_ && !trains()) sdk::set_base_phase(Phase::Step);
  if (begun_ && std::uncaught_exceptions() == exceptions_at_start_) tell_over();
}

void BatchStream::begin() {
  if (begun_) {
    throw Failure("invalid_argument", fmt::format("begin() of one pass over '{}' was called twice "
                                                  "(call iter_batches() for the next pass)",
                                                  pass_.dataset));
  }
  begun_ = true;
  if (pass_.prefetch_batches > 0 && pass_.batches > 0)
    thread_ = start_thread("trainrun-data", [this] { read_ahead(); });
}

std::optional<Batch> BatchStream::next() {
  if (superseded_) {
    throw Failure("invalid_argument", fmt::format("another pass over '{}' began before this one "
                                                  "ended (passes over one dataset cannot overlap)",
                                                  pass_.dataset));
  }
  if (over_) return std::nullopt;
  if (trains() && handed_out_ > 0) sdk::end_step(StepSource::Batch);
  if (handed_out_ == pass_.batches) {
    stop();
    meter_.leave();
    tell_over();
    sdk::set_base_phase(Phase::Step);
    return std::nullopt;
  }
  // What the loop does between the batches of other datasets is no training.
  sdk::set_base_phase(trains() ? Phase::Step : Phase::Validate);
  const sdk::InPhase waiting(Phase::Data, pass_.dataset);
  meter_.loop_asks();
  if (pass_.speed) measure();
  Result<Ready> batch = thread_.joinable() ? pop() : read_now();
  if (batch.has_error()) {
    stop();
    meter_.leave();
    over_ = true;  // and the position stays: this batch was not trained on
    sdk::throw_failure(
        std::move(batch.error()).with_context(fmt::format("dataset '{}'", pass_.dataset)));
  }
  meter_.loop_gets(batch->batch.valid_rows, batch->bytes);
  ++handed_out_;
  rows_in_work_ = batch->batch.valid_rows;
  tell_position(batch->rows_consumed);
  return std::move(batch->batch);
}

/// Count the batch that the loop is done with. The loop is in Phase::Data.
void BatchStream::measure() {
  const std::uint64_t busy = sdk::time_in(trains() ? Phase::Step : Phase::Validate);
  if (handed_out_ > 0) {
    pass_.speed->rows += rows_in_work_;
    pass_.speed->busy_ns += busy - busy_before_;
  }
  busy_before_ = busy;
}

void BatchStream::supersede() {
  stop();
  meter_.leave();
  superseded_ = true;
  over_ = true;
}

/// Read a batch. Both Arrow and the plan may run out of memory; that is an error of this batch, not
/// the end of the process.
Result<BatchStream::Ready> BatchStream::read(std::int64_t index) {
  try {
    TRY(data::ReadBatch batch, reader_->read(index));
    if (pass_.maps) {
      TRY(batch, pass_.maps->apply(std::move(batch), pass_.epoch, pass_.meters.get()));
    }
    return prepare(std::move(batch));
  } catch (const std::bad_alloc&) {
    return Error{Errc::ResourceExhausted, fmt::format("no memory for batch {}", index),
                 "use smaller row groups, fewer columns or prefetch_batches: 0"};
  }
}

/// Convert a batch, and count its bytes.
Result<BatchStream::Ready> BatchStream::prepare(data::ReadBatch batch) const {
  const DatasetMeters::Working preparing(pass_.meters.get(), &DatasetMeters::batch);
  const std::int64_t rows = batch.rows->num_rows();
  Ready ready{.batch = {.data = std::move(batch.rows),
                        .valid_rows = batch.valid_rows,
                        .weight = batch.weight},
              .rows = rows,
              .rows_consumed = batch.rows_consumed};
  if (pass_.convert) {
    try {
      sdk::Converted converted = pass_.convert(ready.batch);
      // What the conversion still needs of these rows, it holds itself.
      ready.batch = {.data = nullptr,
                     .valid_rows = batch.valid_rows,
                     .weight = batch.weight,
                     .converted = std::move(converted.value)};
      ready.bytes = converted.bytes;
    } catch (const Failure& failure) {
      return Error{errc_of(failure.kind()), failure.what()};
    }
    return ready;
  }
  const auto bytes = arrow::util::ReferencedBufferSize(*ready.batch.data);
  ready.bytes = bytes.ok() ? *bytes : arrow::util::TotalBufferSize(*ready.batch.data);
  return ready;
}

/// Return whether the queue takes one more batch.
bool BatchStream::has_room(std::int64_t bytes) const {
  return ready_.empty() || (ready_.size() < static_cast<std::size_t>(pass_.prefetch_batches) &&
                            bytes <= pass_.prefetch_bytes - ready_bytes_);
}

/// Read the next batch on the loop's thread.
Result<BatchStream::Ready> BatchStream::read_now() {
  meter_.reader_goes_on();
  Result<Ready> batch = read(handed_out_);
  if (!batch.has_error()) meter_.made(batch->rows, batch->bytes);
  meter_.reader_waits();
  return batch;
}

void BatchStream::read_ahead() {
  const data::StopReading stop(stopping_);
  for (std::int64_t index = 0; index < pass_.batches; ++index) {
    Result<Ready> batch = read(index);
    const bool failed = batch.has_error();
    const std::int64_t bytes = failed ? 0 : batch->bytes;
    if (!failed) meter_.made(batch->rows, bytes);
    std::unique_lock lock(mutex_);
    if (!stopping_ && !has_room(bytes)) {
      meter_.reader_waits();
      changed_.wait(lock, [&] { return stopping_ || has_room(bytes); });
      meter_.reader_goes_on();
    }
    if (stopping_) return;
    ready_.push_back(std::move(batch));
    ready_bytes_ += bytes;
    meter_.queue(ready_bytes_);
    changed_.notify_all();
    if (failed) return;
  }
}

Result<BatchStream::Ready> BatchStream::pop() {
  std::unique_lock lock(mutex_);
  // The thread pushes each batch, or the error that ends it.
  changed_.wait(lock, [&] { return !ready_.empty(); });
  Result<Ready> batch = std::move(ready_.front());
  ready_.pop_front();
  if (batch) ready_bytes_ -= batch->bytes;
  meter_.queue(ready_bytes_);
  changed_.notify_all();
  return batch;
}

void BatchStream::stop() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void BatchStream::tell_position(std::int64_t rows_consumed) {
  if (handed_out_ == pass_.batches) {
    // a checkpoint taken at the last batch continues with the next epoch, even when drop_last
    // leaves rows over
    sdk::set_data_position(pass_.dataset, {pass_.epoch + 1, 0, pass_.next_order});
  } else {
    sdk::set_data_position(pass_.dataset, {pass_.epoch, rows_consumed, pass_.order});
  }
}

void BatchStream::tell_over() {
  if (over_) return;
  over_ = true;
  sdk::set_data_position(pass_.dataset, {pass_.epoch + 1, 0, pass_.next_order});
}

BatchRange::BatchRange(std::shared_ptr<BatchStream> stream) : stream_(std::move(stream)) {}

BatchRange::Iterator BatchRange::begin() {
  stream_->begin();
  return Iterator(stream_.get());
}

std::int64_t BatchRange::size() const { return stream_->size(); }

BatchRange::Iterator::Iterator(BatchStream* stream) : stream_(stream) { ++*this; }

BatchRange::Iterator& BatchRange::Iterator::operator++() {
  if (auto batch = stream_->next()) {
    batch_ = std::move(*batch);
  } else {
    stream_ = nullptr;
    batch_ = {};
  }
  return *this;
}

}  // namespace train
