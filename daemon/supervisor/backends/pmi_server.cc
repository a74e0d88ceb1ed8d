#include "daemon/supervisor/backends/pmi_server.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>

namespace train {
void PmiServer::begin(const std::string& name, int world_size,
                      const std::vector<std::int32_t>& node_sizes) {
  space_.emplace(name, world_size, node_sizes);
  scope_.spawn("MPI_Init", inits_.warn("is the program linked to MPICH, and does it keep the file "
                                       "descriptor in PMI_FD open?"));
}

Result<FileDescriptor> PmiServer::connect(Rank rank) {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return system_error(errno, "making a socket for PMI");
  ranks_.try_emplace(rank, *space_, rank.value);
  inits_.expect(rank);
  scope_.spawn("PMI", serve(rank, FileDescriptor(ends[0])));
  return FileDescriptor(ends[1]);
}

asio::awaitable<void> PmiServer::serve(Rank rank, FileDescriptor socket) {
  PmiConversation& conversation = ranks_.at(rank);
  asio::local::stream_protocol::socket stream(executor_, asio::local::stream_protocol(),
                                              socket.release());
  std::array<char, 4096> buffer{};
  for (;;) {
    const auto [error, size] =
        co_await stream.async_read_some(asio::buffer(buffer), asio::as_tuple(asio::use_awaitable));
    if (error) co_return;
    Result<std::string> answer = conversation.received({buffer.data(), size});
    if (conversation.has_begun()) inits_.began(rank);
    while (answer) {
      const auto [broken, written] = co_await asio::async_write(
          stream, asio::buffer(*answer), asio::as_tuple(asio::use_awaitable));
      if (broken) co_return;
      if (!conversation.at_barrier()) break;
      auto asking = calls_.all_gather(rank, "MPI barrier", conversation.put());
      const auto parts = co_await std::move(asking);
      if (parts.has_error() && parts.error().code == Errc::Cancelled) co_return;
      Result<Unit> outcome = Unit{};
      if (parts.has_error())
        outcome = parts.error();
      else
        outcome = space_->merge((*parts)->sequence, (*parts)->parts);
      if (outcome.has_error())
        uplink_.send(StorageTrouble{"MPI barrier: " + outcome.error().message});
      answer = conversation.end_barrier(outcome);
    }
    if (answer.has_error()) {
      uplink_.send(StorageTrouble{answer.error().message});
      co_return;
    }
  }
}

}  // namespace train
