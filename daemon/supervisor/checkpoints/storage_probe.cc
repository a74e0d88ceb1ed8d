#include "daemon/supervisor/checkpoints/storage_probe.h"

#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/post.hpp>

#include "lib/base/host.h"
#include "lib/net/within.h"

namespace train {
namespace {

constexpr Duration kLookAgainAfter = milliseconds(100);

}  // namespace

Task<Unit> StorageProbe::run(PrepareAttempt message) {
  if (message.storage_marker.empty()) co_return Unit{};
  const StorageCheck check{.run_dir = message.run_dir,
                           .generation = Generation{message.generation},
                           .mark = message.storage_marker,
                           .prober = fmt::format("{}-{}", host_name(), ::getpid())};
  const TimePoint began = clock_.now();
  for (;;) {
    const auto found = co_await look(check, began + kStorageAnswerMax);
    const bool may_come = found.has_error() && found.error().code == Errc::InvalidArgument &&
                          !message.no_access && clock_.now() < began + kMarkSeenMax;
    if (!may_come) co_return found;
    const auto paused = co_await pause_for(kLookAgainAfter);
    if (paused.has_error()) co_return paused;
  }
}

Task<Unit> StorageProbe::look(StorageCheck check, TimePoint deadline) {
  answer_.reset();
  boost::asio::post(pool_, [this, check] {
    auto found = check_storage(files_, check);
    boost::asio::post(executor_, [this, found = std::move(found)] {
      answer_ = found;
      changed_.notify();
    });
  });
  while (!answer_) {
    if (clock_.now() >= deadline)
      co_return Error{Errc::Timeout,
                      fmt::format("the run's storage '{}' did not answer for {}", check.run_dir,
                                  format_duration(kStorageAnswerMax)),
                      "can that node reach its server?"};
    const auto woken = co_await changed_.wait_until(deadline);
    if (woken.has_error()) co_return woken.error();
  }
  co_return *answer_;
}

}  // namespace train
