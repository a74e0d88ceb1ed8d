#include "daemon/server/stdin_leash.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace train {

Task<Unit> wait_for_end_of_stdin(asio::any_io_executor executor) {
  boost::system::error_code failed;
  asio::posix::stream_descriptor input(executor);
  input.assign(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0), failed);
  if (failed) co_return system_error(failed.value(), "waiting for the end of stdin");
  std::array<char, 256> ignored{};
  for (;;) {
    const auto [error, size] =
        co_await input.async_read_some(asio::buffer(ignored), asio::as_tuple(asio::use_awaitable));
    if (error == asio::error::operation_aborted)
      co_return Error{Errc::Cancelled, "waiting for the end of stdin was cancelled"};
    if (error) co_return Unit{};
  }
}

}  // namespace train
