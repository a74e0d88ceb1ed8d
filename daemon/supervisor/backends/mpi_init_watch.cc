#include "daemon/supervisor/backends/mpi_init_watch.h"

#include <fmt/format.h>

#include <vector>

#include "lib/base/rank_ranges.h"
#include "lib/net/within.h"

namespace train {
namespace {

constexpr Duration kInitWithin = seconds(60);

}  // namespace

asio::awaitable<void> MpiInitWatch::warn(std::string question) const {
  const auto waited = co_await pause_for(kInitWithin);
  if (waited.has_error() || missing_.empty()) co_return;
  const std::vector<std::int32_t> ranks(missing_.begin(), missing_.end());
  uplink_.send(
      StorageTrouble{fmt::format("ranks {} have not called MPI_Init within {}: {}",
                                 rank_ranges(ranks), format_duration(kInitWithin), question)});
}

}  // namespace train
