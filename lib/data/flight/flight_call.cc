#include "lib/data/flight/flight_call.h"

#include <arrow/buffer.h>
#include <arrow/ipc/options.h>
#include <arrow/record_batch.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "lib/base/thread.h"
#include "lib/data/arrow_error.h"
#include "lib/data/flight/allowance_pool.h"
#include "lib/data/flight/flight_terms.h"
#include "lib/data/row_bytes.h"
#include "lib/data/serve/flight_module.h"
#include "lib/data/serve/slot_rows.h"

namespace train::data {
namespace {

namespace flight = arrow::flight;

constexpr std::string_view kAsking = "asking an ingest worker";
/// Each Ping is answered, so on a good connection something comes as often. gRPC sends a ping of
/// its own when nothing has come for kQuietMs, and gives the connection up when that is not
/// answered: its server refuses connections with many such pings and nothing else.
constexpr std::chrono::milliseconds kPingEvery{500};
constexpr int kQuietMs = 1000, kPingTimeoutMs = 2000;
constexpr int kConnectMs = 2000;
/// A server that accepts the call, and never says anything.
constexpr std::chrono::seconds kGreetingMost{10};
constexpr std::size_t kOutboxMax = 2 * kAsksMax;
/// A message has frames and Arrow's metadata beside the rows.
constexpr std::int64_t kBesideRowsMax = 16 << 20;

flight::FlightClientOptions client_options(const FlightAccess& access) {
  auto options = flight::FlightClientOptions::Defaults();
  if (!access.certificate.empty()) {
    options.tls_root_certs = access.certificate;
    options.override_hostname = kFlightHostName;
  }
  options.generic_options = {
      {"grpc.enable_http_proxy", 0},
      {"grpc.service_config_disable_resolution", 1},
      {"grpc.enable_retries", 0},
      {"grpc.min_reconnect_backoff_ms", kConnectMs},
      {"grpc.keepalive_time_ms", kQuietMs},
      {"grpc.keepalive_timeout_ms", kPingTimeoutMs},
      {"grpc.http2.ping_timeout_ms", kPingTimeoutMs},
      {"grpc.max_receive_message_length",
       static_cast<int>(kFlightAnswerBytesMax - 1 + kBesideRowsMax)},
  };
  return options;
}

/// A connection that ends is nothing unusual; a peer that refuses us is.
Error error_of(const arrow::Status& status) {
  const auto detail = flight::FlightStatusDetail::UnwrapStatus(status);
  const bool refused =
      detail != nullptr && (detail->code() == flight::FlightStatusCode::Unauthenticated ||
                            detail->code() == flight::FlightStatusCode::Unauthorized);
  return {refused ? Errc::Permission : Errc::Unavailable, error_from(status, kAsking).message};
}

}  // namespace

Result<std::shared_ptr<FlightCall>> FlightCall::start(const FlightAccess& access,
                                                      const flight::Location& location) {
  TRY(Wakeup wakeup, Wakeup::make());
  std::shared_ptr<FlightCall> call(new FlightCall(access, location, std::move(wakeup)));
  call->threads_ = 2;
  const auto start_one = [&](const char* name, void (FlightCall::*run)()) {
    auto started = start_unjoined_thread(name, [call, run] { (call.get()->*run)(); });
    if (started.has_error()) {
      const std::lock_guard lock(call->mutex_);
      --call->threads_;
    }
    return started;
  };
  for (auto& started : {start_one("trainrun-read", &FlightCall::read),
                        start_one("trainrun-write", &FlightCall::write)}) {
    if (!started.has_error()) continue;
    call->leave();
    return started.error();
  }
  return call;
}

void FlightCall::leave() {
  std::unique_lock lock(mutex_);
  leaving_ = true;
  changed_.notify_all();
  if (!connected_) return;
  reader_->Cancel();
  changed_.wait(lock, [&] { return threads_ == 0; });
}

bool FlightCall::is_up() const {
  const std::lock_guard lock(mutex_);
  return up_ && !ended_;
}

void FlightCall::set_credit(std::int64_t bytes) {
  const std::lock_guard lock(mutex_);
  credit_bytes_ = bytes;
}

Result<Unit> FlightCall::send(std::string frame) {
  if (frame.size() > kServeFrameBytesMax)
    return Error{Errc::ResourceExhausted, fmt::format("a frame of {} bytes is longer than {}",
                                                      frame.size(), kServeFrameBytesMax)};
  const std::lock_guard lock(mutex_);
  if (outbox_.size() >= kOutboxMax)
    return Error{Errc::Unavailable, "the ingest worker takes nothing"};
  outbox_.push_back(std::move(frame));
  changed_.notify_all();
  return Unit{};
}

std::vector<PartAnswer> FlightCall::take(std::optional<Error>& ended) {
  wakeup_.clear();
  std::vector<PartAnswer> answers;
  const std::lock_guard lock(mutex_);
  for (Received& one : inbox_) {
    answers.push_back(std::move(one.answer));
    if (!one.slot) continue;
    slots_.reset(*one.slot);
    outbox_.push_back(frame_of(Release{*one.slot}));
  }
  inbox_.clear();
  inbox_bytes_ = 0;
  changed_.notify_all();
  ended = ended_;
  return answers;
}

// ---- the thread that reads

void FlightCall::read() {
  const auto connected = connect();
  Error why{Errc::Unavailable, "the call was left"};
  bool go_on = false;
  {
    const std::lock_guard lock(mutex_);
    connected_ = connected.ok();
    go_on = connected.ok() && !leaving_;
    changed_.notify_all();
  }
  if (!connected.ok()) why = error_of(connected);
  if (go_on) why = read_messages();
  end(std::move(why));
}

arrow::Status FlightCall::connect() {
  ARROW_ASSIGN_OR_RAISE(client_, flight::FlightClient::Connect(location_, client_options(access_)));
  flight::FlightCallOptions options;
  options.headers.emplace_back(kFlightHeader, std::string(kFlightScheme) + access_.token);
  options.read_options.use_threads = false;
  options.read_options.ensure_native_endian = false;
  options.read_options.ensure_alignment = arrow::ipc::Alignment::kDataTypeSpecificAlignment;
  options.read_options.memory_pool = &AllowancePool::get();
  ARROW_ASSIGN_OR_RAISE(
      auto streams,
      client_->DoExchange(options, flight::FlightDescriptor::Command(std::string(kFlightCommand))));
  writer_ = std::move(streams.writer);
  reader_ = std::move(streams.reader);
  return arrow::Status::OK();
}

/// Return why nothing more comes.
Error FlightCall::read_messages() {
  while (true) {
    AllowancePool::allow(kFlightAnswerBytesMax + kBesideRowsMax);
    auto next = reader_->Next();
    if (!next.ok()) return error_of(next.status());
    if (!next->data && !next->app_metadata)
      return {Errc::Unavailable, "the ingest worker has ended the call"};
    if (auto taken = received(*next); taken.has_error()) return taken.error();
  }
}

Result<Unit> FlightCall::received(const flight::FlightStreamChunk& chunk) {
  if (!chunk.app_metadata) return Error{Errc::Protocol, "an ingest worker sends bare rows"};
  TRY(const ServeFrame frame, whole_frame(std::string_view(*chunk.app_metadata)));
  const bool has_rows = chunk.data != nullptr;
  if (has_rows != (frame.type == ServeType::Answer))
    return Error{Errc::Protocol, "an ingest worker sends an answer without rows, or rows without"};
  Received one{.answer = {0, Error{}}};
  if (frame.type == ServeType::Answer) {
    TRY(Answer answer, read_answer(frame.fields));
    if (answer.new_slot || !answer.messages.empty())
      return Error{Errc::Protocol, "an ingest worker sends slots to another node"};
    TRY_VOID(check_rows(*chunk.data));
    one.slot = answer.slot;
    one.bytes = bytes_of_rows(*chunk.data);
    one.answer = {answer.sequence, PartRows{.rows = chunk.data,
                                            .bad = std::move(answer.bad),
                                            .lost = std::move(answer.lost),
                                            .counts = std::move(answer.counts),
                                            .operators = std::move(answer.operators)}};
  } else if (frame.type == ServeType::Failed) {
    TRY(Failed failed, read_failed(frame.fields));
    one.answer = {failed.sequence, std::move(failed.why)};
  } else if (frame.type != ServeType::Pong) {
    return Error{Errc::Protocol, fmt::format("an ingest worker sends a frame of type {}",
                                             static_cast<int>(frame.type))};
  }
  {
    const std::lock_guard lock(mutex_);
    const bool first = !std::exchange(up_, true);
    if (frame.type == ServeType::Pong && !first) return Unit{};
    if (frame.type != ServeType::Pong) {
      // What the credit is counted in differs a little at both ends.
      if ((one.slot && slots_.test(*one.slot)) || inbox_.size() >= kAsksMax ||
          (!inbox_.empty() && inbox_bytes_ + one.bytes > 2 * credit_bytes_ + kBesideRowsMax))
        return Error{Errc::Protocol, "an ingest worker sends more than it may"};
      if (one.slot) slots_.set(*one.slot);
      inbox_bytes_ += one.bytes;
      inbox_.push_back(std::move(one));
    }
  }
  wakeup_.wake();
  return Unit{};
}

void FlightCall::end(Error why) {
  std::unique_lock lock(mutex_);
  ended_ = std::move(why);
  changed_.notify_all();
  wakeup_.wake();
  changed_.wait(lock, [&] { return threads_ == 1; });
  if (writer_) {
    reader_->Cancel();
    (void)writer_->Close();  // else Arrow does, and writes to stderr that it has failed
  }
  --threads_;
  changed_.notify_all();
}

// ---- the thread that writes

void FlightCall::write() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return connected_ || ended_ || leaving_; });
  const auto began = std::chrono::steady_clock::now();
  while (!leaving_ && !ended_) {
    const bool has_frames =
        changed_.wait_for(lock, kPingEvery, [&] { return !outbox_.empty() || leaving_ || ended_; });
    if (leaving_ || ended_) break;
    if (!up_ && std::chrono::steady_clock::now() - began > kGreetingMost) break;
    std::string frame = has_frames ? std::move(outbox_.front()) : frame_of(ServeType::Ping);
    if (has_frames) outbox_.pop_front();
    lock.unlock();
    const auto written = writer_->WriteMetadata(arrow::Buffer::FromString(std::move(frame)));
    lock.lock();
    if (!written.ok()) break;
  }
  if (connected_) reader_->Cancel();  // whatever is read
  --threads_;
  changed_.notify_all();
}

}  // namespace train::data
