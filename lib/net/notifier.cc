#include "lib/net/notifier.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace train {

struct Notifier::Impl {
  asio::any_io_executor executor;
  asio::steady_timer wake;  // never expires; notify() cancels the waits on it
  std::uint64_t count = 0;
};

Notifier::Notifier(asio::any_io_executor executor)
    : impl_(new Impl{executor,
                     asio::steady_timer(executor, asio::steady_timer::time_point::max())}) {}

Notifier::~Notifier() = default;

void Notifier::notify() {
  ++impl_->count;
  impl_->wake.cancel();
}

// A wait with a deadline needs its own timer; a wait without one uses the notifier's.
Task<bool> Notifier::wait_until(TimePoint deadline) {
  const std::uint64_t before = impl_->count;
  const auto state = co_await asio::this_coro::cancellation_state;
  if (deadline == TimePoint::max()) {
    (void)co_await impl_->wake.async_wait(asio::as_tuple(asio::use_awaitable));
  } else {
    asio::steady_timer limit(impl_->executor, deadline);
    const auto up = std::make_shared<bool>(false);
    limit.async_wait([impl = impl_, up](const boost::system::error_code& error) {
      if (error) return;
      *up = true;
      impl->wake.cancel();  // others wake too early and check again: harmless
    });
    while (!*up && impl_->count == before && state.cancelled() == asio::cancellation_type::none) {
      (void)co_await impl_->wake.async_wait(asio::as_tuple(asio::use_awaitable));
    }
    limit.cancel();
  }
  if (state.cancelled() != asio::cancellation_type::none)
    co_return Error{Errc::Cancelled, "cancelled"};
  co_return impl_->count != before;
}

}  // namespace train
