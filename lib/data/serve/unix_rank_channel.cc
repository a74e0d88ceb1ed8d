#include "lib/data/serve/unix_rank_channel.h"

#include <algorithm>

#include "lib/data/serve/slot_rows.h"
#include "lib/data/serve/slots.h"
#include "lib/data/serve/unix_channel.h"

namespace train::data {
namespace {

/// Of the credit: what the rank keeps, and what is on its way. A rank gives slots back before it
/// holds as much (IngestPeer), so who waits for room gets it.
constexpr std::int64_t kArenaCredits = 5;
constexpr std::int64_t kCreditBytesMax = std::int64_t{1} << 40;

class UnixRankChannel final : public RankChannel {
 public:
  explicit UnixRankChannel(FileDescriptor socket) : channel_(std::move(socket)), arena_(0) {}

  int descriptor() const override { return channel_.descriptor(); }
  bool wants_to_write() const override { return channel_.has_queued(); }
  Result<Unit> exchange() override {
    TRY_VOID(channel_.flush());
    return channel_.fill();
  }
  Result<bool> next(ServeFrame& frame) override { return channel_.next(frame); }
  void begin_pass(std::int64_t credit_bytes) override {
    arena_.set_bytes_max(kArenaCredits * std::min(credit_bytes, kCreditBytesMax));
  }
  bool has_room() const override { return !channel_.has_queued() && arena_.has_room(); }

  Result<std::int64_t> send(Answer answer, const arrow::RecordBatch& batch) override {
    TRY(const RowsToSend rows, RowsToSend::make(batch));
    TRY(const SlotArena::Taken taken, arena_.take(rows.bytes()));
    answer.slot = taken.slot;
    answer.new_slot = taken.is_new;
    answer.messages = rows.copy_to(taken.memory->data());
    auto queued = channel_.queue(frame_of(answer), taken.is_new ? taken.memory->descriptor() : -1);
    if (queued.has_error()) {
      arena_.give_up(taken.slot);
      return std::move(queued).error();
    }
    return rows.bytes();
  }
  Result<Unit> send(const Failed& failed) override { return channel_.queue(frame_of(failed)); }
  Result<Unit> release(std::uint32_t slot) override { return arena_.release(slot); }

 private:
  UnixChannel channel_;
  SlotArena arena_;
};

}  // namespace

std::unique_ptr<RankChannel> unix_rank_channel(FileDescriptor socket) {
  return std::make_unique<UnixRankChannel>(std::move(socket));
}

}  // namespace train::data
