#include "launcher/cluster/links/worker_count.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <thread>
#include <utility>

#include "launcher/cluster/links/dialler.h"
#include "launcher/cluster/links/node_survey.h"
#include "launcher/core/label_selector.h"
#include "launcher/core/scheduling.h"
#include "lib/base/time.h"

namespace train {
namespace {

constexpr Duration kAnswerWithin = seconds(5);  // each step of one node
constexpr Duration kAskAgainAfter = milliseconds(200);

}  // namespace

Result<std::vector<NodeCapacity>> offers_of(const ClusterConfig& cluster, const TlsFiles& tls,
                                            const std::string& build,
                                            std::vector<std::string>& left_out) {
  const TimePoint until = SystemClock().now() + kAllNodesWait;
  std::vector<NodeRow> rows;
  for (;;) {
    auto diallers = diallers_of(cluster, 1);
    rows = ask_nodes(diallers, tls, build, kAnswerWithin, /*only_offers=*/true);
    const bool all =
        std::all_of(rows.begin(), rows.end(), [](const NodeRow& row) { return row.answered; });
    if (all || SystemClock().now() >= until) break;
    std::this_thread::sleep_for(kAskAgainAfter);
  }
  std::vector<NodeCapacity> nodes;
  for (NodeRow& row : rows) {
    if (!row.answered || row.draining) {
      left_out.push_back(fmt::format("{} {}", row.answered ? row.name : row.address,
                                     row.answered ? "is draining" : "does not answer"));
      continue;
    }
    NodeCapacity& node = nodes.emplace_back();
    node.node = NodeId{static_cast<int>(nodes.size()) - 1};
    node.name = std::move(row.name);
    node.total = std::move(row.total);
    node.free = std::move(row.free);
    node.labels = std::move(row.labels);
    node.gpus = std::move(row.offered_gpus);
  }
  if (!nodes.empty()) return nodes;
  const NodeRow& first = rows.front();
  return Error{Errc::Unavailable,
               fmt::format("scaling_config.num_workers is auto, and no node says what it has: {}",
                           fmt::join(left_out, ", ")),
               first.problem ? first.problem->message : "write a number"};
}

Result<int> count_workers(const ScalingConfig& scaling, const std::vector<NodeCapacity>& nodes) {
  const int count = automatic_workers(scaling, nodes);
  if (count > 0) return count;
  std::vector<std::string> offers;
  for (const NodeCapacity& node : nodes)
    offers.push_back(fmt::format("{} has CPU {:g}, GPU {:g} ({})", node.name, node.total.cpu,
                                 node.total.gpu, describe_labels(node.labels)));
  return Error{
      Errc::ResourceExhausted,
      fmt::format("scaling_config.num_workers is auto, and no node has a {} for a worker: {}",
                  scaling.resources_per_worker.gpu > 0 ? "GPU" : "core", fmt::join(offers, "; ")),
      "write a number, or change what a worker claims or selects"};
}

}  // namespace train
