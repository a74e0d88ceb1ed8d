#include "lib/data/serve/ingest_peer.h"

#include <arrow/buffer.h>
#include <arrow/device.h>
#include <arrow/record_batch.h>
#include <fmt/format.h>

#include "lib/data/arrow_error.h"
#include "lib/data/serve/slot_rows.h"
#include "lib/data/serve/slots.h"
#include "lib/data/serve/unix_channel.h"

namespace train::data {
namespace {

/// Views are given as long as they hold no more than this, and the ingest worker, which stops at
/// one more credit and 96 slots, always has room for the next answer.
constexpr std::int64_t kHeldCredits = 4;
constexpr std::size_t kHeldSlots = kSlotsMax / 2;

class UnixPeer final : public IngestPeer {
 public:
  explicit UnixPeer(FileDescriptor socket) : channel_(std::move(socket)) {}

  int descriptor() const override { return channel_.descriptor(); }
  bool wants_to_write() const override { return channel_.has_queued(); }

  Result<Unit> open(const OpenPass& pass) override {
    credit_bytes_ = pass.credit_bytes;
    return send(frame_of(pass));
  }

  Result<Unit> ask(const Ask& ask) override { return send(frame_of(ask)); }

  Result<Unit> exchange(std::vector<PartAnswer>& answers) override {
    TRY_VOID(release_slots());
    TRY_VOID(channel_.flush());
    auto filled = channel_.fill();
    ServeFrame frame;
    while (true) {  // also what came before the end
      TRY(const bool whole, channel_.next(frame));
      if (!whole) break;
      TRY(auto answer, take(frame));
      answers.push_back(std::move(answer));
    }
    if (filled.has_error()) return filled;
    TRY_VOID(release_slots());
    return channel_.flush();
  }

 private:
  Result<Unit> send(std::string frame) {
    TRY_VOID(channel_.queue(std::move(frame)));
    return channel_.flush();
  }

  Result<Unit> release_slots() {
    for (const std::uint32_t slot : slots_.take_released())
      TRY_VOID(channel_.queue(frame_of(Release{slot})));
    return Unit{};
  }

  Result<PartAnswer> take(const ServeFrame& frame) {
    switch (frame.type) {
      case ServeType::Answer: {
        TRY(Answer answer, read_answer(frame.fields));
        const std::uint64_t sequence = answer.sequence;
        TRY(auto part, rows_of(std::move(answer)));
        return PartAnswer{sequence, std::move(part)};
      }
      case ServeType::Failed: {
        TRY(Failed failed, read_failed(frame.fields));
        return PartAnswer{failed.sequence, std::move(failed.why)};
      }
      case ServeType::OpenPass:
      case ServeType::Ask:
      case ServeType::Release:
      case ServeType::Ping:
      case ServeType::Pong:
        break;
    }
    return Error{Errc::Protocol, fmt::format("an ingest worker sends a frame of type {}",
                                             static_cast<int>(frame.type))};
  }

  Result<PartRows> rows_of(Answer answer) {
    if (answer.new_slot) {
      TRY(auto descriptor, channel_.take_descriptor());
      TRY_VOID(slots_.set(answer.slot, std::move(descriptor)));
    }
    TRY(auto slot, slots_.use(answer.slot));
    const std::int64_t bytes = slot->size();
    TRY(auto rows, rows_in_slot(answer.messages, std::move(slot)));
    if (bytes > credit_bytes_ || slots_.held() > kHeldSlots ||
        slots_.held_bytes() > kHeldCredits * credit_bytes_) {
      ARROW_TRY(rows, "copying the rows of an ingest worker",
                rows->CopyTo(arrow::default_cpu_memory_manager()));
    }
    return PartRows{.rows = std::move(rows),
                    .bad = std::move(answer.bad),
                    .lost = std::move(answer.lost),
                    .counts = std::move(answer.counts),
                    .operators = std::move(answer.operators)};
  }

  UnixChannel channel_;
  SlotTable slots_;
  std::int64_t credit_bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<IngestPeer>> connect_unix_peer(const std::string& path) {
  TRY(auto socket, connect_to(path));
  return std::unique_ptr<IngestPeer>(std::make_unique<UnixPeer>(std::move(socket)));
}

}  // namespace train::data
