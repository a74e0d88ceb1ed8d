#include "daemon/supervisor/output/output_pump.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <tuple>

#include "daemon/supervisor/uplink.h"

namespace train {
namespace {

constexpr std::size_t kOutputWindowBytes = 256u << 10;  // sent and not acknowledged, per stream
constexpr std::size_t kOutputChunkBytes = 64u << 10;
constexpr std::size_t kOutputLeftMax = 1u << 20;  // that a pipe holds at most

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

void OutputPump::leave(WorkerSlot& slot) {
  for (OutputStream& stream : slot.streams) {
    stream.stays = true;
    if (stream.pipe != nullptr) stream.pipe->cancel();
  }
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
  OutputStream& stream = slot.streams[number];
  if (fd < 0) {  // the process closed it in an earlier run
    stream.spool.finish();
    stream.ended = true;
    co_return changed_.notify();
  }
  asio::posix::stream_descriptor pipe(executor_, fd);
  const auto keep = [&](const char* data, std::size_t size) {
    stream.spool.append({data, size});
    slot.last_lines.append(number, {data, size});
    changed_.notify();
  };
  stream.pipe = &pipe;
  std::vector<char> buffer(kOutputChunkBytes);
  boost::system::error_code error;
  while (!error && !stream.stays) {
    std::size_t size = 0;
    std::tie(error, size) =
        co_await pipe.async_read_some(asio::buffer(buffer), asio::as_tuple(asio::use_awaitable));
    if (!error) keep(buffer.data(), size);
  }
  stream.pipe = nullptr;
  if (stream.stays) {
    stream.rest.reset(pipe.release());
    // What it has written before it left its loop; others of its threads may go on.
    for (std::size_t left = kOutputLeftMax; left > 0;) {
      const ssize_t size = ::read(stream.rest.get(), buffer.data(), std::min(left, buffer.size()));
      if (size <= 0) break;
      keep(buffer.data(), static_cast<std::size_t>(size));
      left -= static_cast<std::size_t>(size);
    }
  }
  stream.spool.finish();
  stream.ended = true;
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
