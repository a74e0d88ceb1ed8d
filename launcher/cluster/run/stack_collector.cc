#include "launcher/cluster/run/stack_collector.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/cluster/run/dated_files.h"
#include "lib/base/secrets.h"
#include "lib/base/utf8.h"
#include "lib/net/blocking.h"
#include "lib/stacks/stack_json.h"
#include "lib/stacks/stack_text.h"
#include "lib/stacks/stacks_codec.h"
#include "lib/storage/new_folders.h"
#include "lib/wire/codec.h"

namespace train {
namespace {

constexpr Duration kAnswerWithin = seconds(15);      // a capture takes 10 s at most
constexpr std::size_t kStacksBytesMax = 256u << 20;  // of all nodes, as they are sent
constexpr std::size_t kErrorBytesMax = 4096;
constexpr std::size_t kKept = 64;
const std::vector<std::string> kEndings = {".txt", ".json"};

}  // namespace

Task<Unit> StackCollector::gather(const CollectStacks& order) {
  ranks_.clear();
  notes_.clear();
  bytes_ = 0;
  missing_ = {order.nodes.begin(), order.nodes.end()};
  TakeStacks message{.request = ++request_};
  for (const Rank rank : order.ranks) message.ranks.push_back(rank.value);
  for (const NodeId node : order.nodes) links_.send(node, encode(message, order.attempt));
  const TimePoint until = clock_.now() + kAnswerWithin;
  while (!missing_.empty()) {
    CO_TRY(const bool in_time, co_await changed_.wait_until(until));
    if (!in_time) break;
  }
  for (const NodeId node : missing_)
    notes_.push_back(
        fmt::format("{}: no answer within {}", links_.name(node), format_duration(kAnswerWithin)));
  std::sort(ranks_.begin(), ranks_.end(),
            [](const RankStacks& a, const RankStacks& b) { return a.rank < b.rank; });
  co_return Unit{};
}

void StackCollector::received(const Sender& from, const StacksTaken& message) {
  if (message.request != request_ || missing_.count(from.node) == 0) return;
  const std::string node = links_.name(from.node);
  if (!message.error.empty())
    notes_.push_back(node + ": " + utf8_text(redacted(message.error), kErrorBytesMax));
  for (const WorkerStacks& worker : message.workers) {
    bytes_ += worker.stacks.size();
    if (bytes_ > kStacksBytesMax) {  // a node must not fill our memory
      notes_.push_back(fmt::format("{}: left out, since all stacks together exceed {} MiB", node,
                                   kStacksBytesMax >> 20));
      missing_.erase(from.node);
      break;
    }
    auto process = decode_stacks(worker.stacks);
    if (process)
      ranks_.push_back({worker.rank, node, std::move(*process)});
    else
      notes_.push_back(
          fmt::format("{}: rank {}: {}", node, worker.rank, process.error().describe()));
  }
  if (message.last) missing_.erase(from.node);
  changed_.notify();
}

Task<StacksCollected> StackCollector::collect(CollectStacks order) {
  while (busy_) {
    CO_TRY([[maybe_unused]] const bool woken, co_await changed_.wait_until(TimePoint::max()));
  }
  busy_ = true;
  const auto gathered = co_await gather(order);
  StacksCollected event{.attempt = order.attempt, .why = order.why};
  event.classes = describe_classes(stack_classes(ranks_));
  const std::string folder = folder_.stacks(order.attempt);
  const std::string stem =
      join_path(folder, fmt::format("{}-{}", dated_name(clock_.wall()), order.why));
  event.path = stem + ".txt";
  std::function<Result<Unit>()> work = [this, folder, stem, ranks = std::move(ranks_),
                                        notes = std::exchange(notes_, {})]() -> Result<Unit> {
    std::string text;
    for (const std::string& note : notes) text += note + "\n";
    text += redacted(describe_stacks(ranks));
    TRY_VOID(make_folders(files_, folder));
    keep_newest(files_, folder, kEndings, kKept - 1);
    TRY_VOID(write_small_file(files_, stem + ".json", redacted(stacks_json(ranks)) + "\n"));
    return write_small_file(files_, stem + ".txt", text);  // last: who waits for it finds both
  };
  ranks_.clear();
  auto writing = run_on<Unit>(disk_, std::move(work));
  const auto written = co_await std::move(writing);
  if (written.has_error()) event.error = written.error().describe();
  busy_ = false;
  changed_.notify();
  if (gathered.has_error()) co_return gathered.error();
  co_return event;
}

}  // namespace train
