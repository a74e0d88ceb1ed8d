#include "daemon/server/node_reporter.h"

#include <chrono>
#include <utility>

#include "daemon/devices/node_sampler.h"
#include "lib/net/blocking.h"
#include "lib/net/within.h"

namespace train {
namespace {
constexpr Duration kGpusAskedEvery = milliseconds(20);
}

asio::awaitable<void> NodeReporter::run(std::function<bool()> wanted,
                                        std::function<void(NodeStatus)> told) const {
  for (;;) {
    const auto woken = co_await pause_for(kNodeStatusEvery);
    if (!woken) co_return;
    if (!wanted()) continue;
    std::function<Result<NodeSample>()> work = [spool = spool_]() -> Result<NodeSample> {
      return sample_node(spool);
    };
    auto sampling = run_unjoined<NodeSample>(std::move(work));
    auto sample = co_await std::move(sampling);
    if (sample.has_error() && sample.error().code == Errc::Cancelled) co_return;
    if (sample.has_error()) continue;  // no thread could be started
    const TimePoint now = SystemClock().now();
    told({.taken_us =
              std::chrono::duration_cast<std::chrono::microseconds>(now.time_since_epoch()).count(),
          .node = *sample,
          .gpus = gpus_.newest(now)});
  }
}

GpusInUse NodeReporter::gpus_in_use() const {
  GpusInUse in_use;
  for (const GpuSample& gpu : gpus_.newest(SystemClock().now()))
    if (!gpu.foreign.empty()) in_use[gpu.gpu] = gpu.foreign;
  return in_use;
}

asio::awaitable<void> NodeReporter::gpus_asked() const {
  const TimePoint until = SystemClock().now() + kGpuAnswerWithin;
  while (!gpus_.asked_all() && SystemClock().now() < until) {
    const auto woken = co_await pause_for(kGpusAskedEvery);
    if (!woken) co_return;
  }
}

}  // namespace train
