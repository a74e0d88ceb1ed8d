#include "launcher/cluster/run/stack_collector.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/cluster/run/dated_files.h"
#include "launcher/cluster/run/flight_records.h"
#include "lib/base/secrets.h"
#include "lib/base/terminal_text.h"
#include "lib/base/utf8.h"
#include "lib/net/blocking.h"
#include "lib/stacks/stack_json.h"
#include "lib/stacks/stack_text.h"
#include "lib/stacks/stacks_codec.h"
#include "lib/wire/codec.h"

namespace train {
namespace {

constexpr Duration kAnswerWithin = seconds(15);      // a capture takes 10 s at most
constexpr std::size_t kStacksBytesMax = 256u << 20;  // of all nodes, as they are sent
constexpr std::size_t kErrorBytesMax = 4096;
constexpr Duration kCompareWithin = seconds(10);  // the flight records

}  // namespace

Task<Unit> StackCollector::gather(const CollectStacks& order) {
  ranks_.clear();
  notes_.clear();
  bytes_ = 0;
  attempt_ = order.attempt;
  missing_ = {order.nodes.begin(), order.nodes.end()};
  TakeStacks message{.request = ++request_};
  for (const Rank rank : order.ranks) message.ranks.push_back(rank.value);
  for (const NodeId node : order.nodes) links_.send(node, encode(message, order.attempt));
  const TimePoint until = clock_.now() + kAnswerWithin;
  while (!missing_.empty()) {
    CO_TRY(const bool in_time, co_await changed_.wait_until(until));
    if (!in_time) break;
  }
  give_up_waiting(fmt::format("no answer within {}", format_duration(kAnswerWithin)));
  std::sort(ranks_.begin(), ranks_.end(),
            [](const RankStacks& a, const RankStacks& b) { return a.rank < b.rank; });
  co_return Unit{};
}

void StackCollector::give_up_waiting(std::string_view why) {
  for (const NodeId node : missing_)
    notes_.push_back(fmt::format("{}: {}", links_.name(node), why));
  missing_.clear();
}

void StackCollector::attempt_ended(Attempt attempt) {
  if (attempt != attempt_) return;
  give_up_waiting(fmt::format("attempt {} ended before it had answered", attempt.value));
  changed_.notify();
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
  const std::string records = folder_.attempt(order.attempt) + "/flight_records";
  std::function<Result<Unit>()> clear = [records]() -> Result<Unit> {
    remove_flight_records(records);
    return Unit{};
  };
  auto clearing = run_on<Unit>(disk_, std::move(clear));
  (void)co_await std::move(clearing);
  const auto gathered = co_await gather(order);
  StacksCollected event{.attempt = order.attempt, .why = order.why};
  const std::vector<StackClass> classes = stack_classes(ranks_);
  event.classes = describe_classes(classes);
  for (const StackClass& one : classes) {
    for (const std::int32_t rank : one.ranks) {
      if (one.waits_for_others)
        event.waiting.push_back(Rank{rank});
      else if (one.has_stack)
        event.elsewhere.emplace_back(Rank{rank}, terminal_safe(redacted(one.where)));
    }
  }
  const std::string stem = dated_stem(folder_.stacks(order.attempt), clock_.wall(), order.why);
  event.path = stem + ".txt";
  std::function<Result<std::string>()> compare = [records]() -> Result<std::string> {
    return flight_records_text(records, std::chrono::steady_clock::now() + kCompareWithin);
  };
  auto comparing = run_on<std::string>(disk_, std::move(compare));
  auto compared = co_await std::move(comparing);
  if (compared) event.flight_records = std::move(*compared);
  std::function<Result<Unit>()> work = [this, stem, flight = event.flight_records,
                                        ranks = std::move(ranks_),
                                        notes = std::exchange(notes_, {})]() -> Result<Unit> {
    std::string text;
    for (const std::string& note : notes) text += note + "\n";
    text += flight;
    text += redacted(describe_stacks(ranks));
    // The text is the last one: who waits for it finds both.
    return write_dated_files(files_, stem,
                             {{".json", redacted(stacks_json(ranks)) + "\n"}, {".txt", text}});
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
