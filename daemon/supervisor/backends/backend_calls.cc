#include "daemon/supervisor/backends/backend_calls.h"

#include <fmt/format.h>

#include <utility>

namespace train {

Task<BackendCalls::Parts> BackendCalls::all_gather(Rank rank, std::string name, std::string data) {
  if (data.size() > kDataBytesMax)
    co_return Error{Errc::ResourceExhausted,
                    fmt::format("{}: rank {} has {} bytes for the others; "
                                "at most {} are allowed",
                                name, rank.value, data.size(), kDataBytesMax)};
  const std::uint64_t sequence = kBackendCollectives + ++made_[rank];
  const Frame join =
      encode(CollectiveJoin{rank.value, sequence, std::move(name), std::move(data)}, attempt_);
  ++calls_[sequence].waiting;
  // Kept until it is answered: a launcher that attaches meanwhile gets it again.
  slots_.at(rank).unanswered_collectives[sequence] = join;
  uplink_.send(join);
  Parts result;
  std::optional<Error> cancelled;
  while (!(result = calls_.at(sequence).result) && !cancelled) {
    const auto woken = co_await changed_.wait_until(TimePoint::max());
    if (woken.has_error()) cancelled = woken.error();
  }
  if (--calls_.at(sequence).waiting == 0) calls_.erase(sequence);
  if (cancelled) co_return *cancelled;
  if (!result->error.empty()) co_return Error{Errc::Unavailable, result->error};
  co_return result;
}

void BackendCalls::answered(Parts result) {
  const auto call = calls_.find(result->sequence);
  if (call == calls_.end()) return;
  call->second.result = std::move(result);
  changed_.notify();
}

}  // namespace train
