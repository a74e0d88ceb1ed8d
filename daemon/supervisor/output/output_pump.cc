#include "daemon/supervisor/output/output_pump.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "daemon/supervisor/uplink.h"

namespace train {
namespace {

constexpr std::size_t kOutputWindowBytes = 256u << 10;  // sent and not acknowledged, per stream
constexpr std::size_t kOutputChunkBytes = 64u << 10;

}  // namespace

Result<Unit> OutputPump::open_spools(WorkerSlot& slot, const std::string& spool_dir,
                                     std::uint64_t bytes_max) {
  for (const std::uint8_t number : {std::uint8_t{1}, std::uint8_t{2}}) {
    TRY(auto spool, OutputSpool::create(fmt::format("{}/rank-{:04}.{}", spool_dir, slot.ranks.rank,
                                                    number == 1 ? "out" : "err"),
                                        bytes_max));
    slot.streams.push_back(OutputStream{.spool = std::move(spool), .number = number});
  }
  return Unit{};
}

void OutputPump::start(WorkerSlot& slot, int stdout_fd, int stderr_fd) {
  scope_.spawn("stdout", read(slot, 0, stdout_fd));
  scope_.spawn("stderr", read(slot, 1, stderr_fd));
  scope_.spawn("send stdout", send(slot.ranks.rank, slot.streams[0]));
  scope_.spawn("send stderr", send(slot.ranks.rank, slot.streams[1]));
}

void OutputPump::acknowledge(WorkerSlot& slot, const AckOutput& message) {
  for (OutputStream& stream : slot.streams) {
    if (stream.number != message.stream) continue;
    stream.acked = std::min(std::max(stream.acked, message.offset), stream.spool.total());
    stream.sent = std::max(stream.sent, stream.acked);
  }
}

void OutputPump::send_again(WorkerSlot& slot) {
  for (OutputStream& stream : slot.streams) {
    stream.sent = stream.acked;
    stream.end_sent = false;
  }
}

asio::awaitable<void> OutputPump::read(WorkerSlot& slot, std::size_t number, int fd) {
  asio::posix::stream_descriptor pipe(executor_, fd);
  std::vector<char> buffer(kOutputChunkBytes);
  for (;;) {
    const auto [error, size] =
        co_await pipe.async_read_some(asio::buffer(buffer), asio::as_tuple(asio::use_awaitable));
    if (error) break;
    slot.streams[number].spool.append({buffer.data(), size});
    slot.last_lines.append(number, {buffer.data(), size});
    changed_.notify();
  }
  slot.streams[number].spool.finish();
  slot.streams[number].ended = true;
  changed_.notify();
}

// The launcher acknowledges what it has written to the run's folder; a small window keeps one noisy
// worker from filling every queue.
asio::awaitable<void> OutputPump::send(std::int32_t rank, OutputStream& stream) {
  for (;;) {
    while (uplink_.connected() && stream.sent < stream.spool.total() &&
           stream.sent - stream.acked < kOutputWindowBytes) {
      std::uint64_t offset = stream.sent;
      std::string data = stream.spool.read(offset, kOutputChunkBytes);
      stream.sent = offset + data.size();
      // If the ring has moved on, what was before `offset` is lost.
      if (offset > stream.acked + kOutputWindowBytes) stream.acked = offset;
      uplink_.send(OutputChunk{rank, stream.number, offset, std::move(data), false});
      uplink_.output_moved();
    }
    if (uplink_.connected() && stream.ended && !stream.end_sent &&
        stream.sent == stream.spool.total()) {
      stream.end_sent = true;
      uplink_.send(OutputChunk{rank, stream.number, stream.sent, "", true});
      uplink_.output_moved();
    }
    const auto woken = co_await changed_.wait_until(TimePoint::max());
    if (!woken) co_return;
  }
}

}  // namespace train
