#include "launcher/cluster/run/call_collector.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lib/base/secrets.h"
#include "lib/base/utf8.h"
#include "lib/model/worker_call.h"
#include "lib/wire/codec.h"

namespace train {

CallCollector::Awaited CallCollector::expect(Attempt attempt, const Places& ranks) {
  Awaited awaited{.attempt = attempt, .missing = {}};
  for (const auto& [rank, node] : ranks) {
    if (node)
      awaited.missing.emplace(rank, *node);
    else
      awaited.answers.push_back(
          {.rank = rank, .error = "it has no worker now", .kind = std::string(kCallLost)});
  }
  return awaited;
}

void CallCollector::send(std::uint64_t number, const Awaited& awaited, const WorkerCall& call) {
  std::map<NodeId, CallWorkers> orders;
  for (const auto& [rank, node] : awaited.missing) orders[node].ranks.push_back(rank.value);
  for (auto& [node, order] : orders) {
    order.request = number;
    order.name = call.name;
    order.argument = call.argument;
    order.command = call.command;
    order.within_ms =
        static_cast<std::uint32_t>(std::chrono::duration_cast<milliseconds>(call.within).count());
    links_.send(node, encode(order, awaited.attempt));
  }
}

void CallCollector::give_up(Awaited& awaited, std::string_view kind, const std::string& why) {
  for (const auto& [rank, node] : awaited.missing)
    awaited.answers.push_back({.rank = rank, .error = why, .kind = std::string(kind)});
  awaited.missing.clear();
}

Task<CallAnswers> CallCollector::call(Attempt attempt, Places ranks, WorkerCall call) {
  if (awaited_.size() >= kAtATime)
    co_return CallAnswers{
        .error = fmt::format("{} other calls of this run have no answer yet", kAtATime)};
  if (ranks.empty()) co_return CallAnswers{.error = "the run has no workers now"};
  const std::uint64_t number = ++request_;
  // In the table before it is sent: an answer may be there at once.
  Awaited& awaited = awaited_.emplace(number, expect(attempt, ranks)).first->second;
  send(number, awaited, call);
  // A command is killed at its limit where it runs, and its output comes then.
  const Duration more = call.command.empty() ? Duration{0} : kCommandEndMax;
  const TimePoint until = clock_.now() + call.within + more;
  while (!awaited.missing.empty()) {
    const auto in_time = co_await changed_.wait_until(until);
    const bool cancelled = in_time.has_error(), late = !cancelled && !*in_time;
    if (cancelled) {
      awaited_.erase(number);
      co_return in_time.error();
    }
    if (!late) continue;
    give_up(awaited, kCallLate,
            fmt::format(
                "no answer within {}{}", format_duration(call.within),
                call.command.empty() ? ": a program answers in its next report() or poll()" : ""));
  }
  CallAnswers answers{.ranks = std::move(awaited.answers)};
  awaited_.erase(number);
  const auto first = std::find_if(answers.ranks.begin(), answers.ranks.end(),
                                  [](const auto& one) { return one.kind == kCallThrown; });
  if (first != answers.ranks.end()) answers.first_thrown = first->rank;
  const auto by_rank = [](const RankAnswer& a, const RankAnswer& b) { return a.rank < b.rank; };
  std::sort(answers.ranks.begin(), answers.ranks.end(), by_rank);
  co_return answers;
}

// A worker's program may answer anything.
void CallCollector::received(const Sender& from, const WorkerAnswered& message) {
  const auto found = awaited_.find(message.request);
  if (found == awaited_.end() || found->second.attempt != from.attempt) return;
  Awaited& awaited = found->second;
  const Rank rank{message.rank};
  const auto missing = awaited.missing.find(rank);
  if (missing == awaited.missing.end() || missing->second != from.node) return;
  awaited.missing.erase(missing);
  RankAnswer answer{.rank = rank};
  if (!message.error.empty()) {
    answer.error = utf8_text(redacted(message.error), kCallErrorBytesMax);
    const bool known = message.kind == kCallThrown || message.kind == kCallLost;
    answer.kind = known ? message.kind : std::string(kCallRefused);
  } else if (auto result = checked_call_value(message.result)) {
    answer.result = std::move(*result);
  } else {
    answer.error = "its answer " + result.error().message;
    answer.kind = kCallThrown;
  }
  awaited.bytes += answer.result.size() + answer.error.size();
  if (awaited.bytes > kCallAnswersBytesMax) {
    answer.result.clear();
    answer.error = fmt::format("the answers of all ranks have more than {} MiB: call fewer ranks",
                               kCallAnswersBytesMax >> 20);
    if (answer.kind.empty()) answer.kind = kCallThrown;
  }
  awaited.answers.push_back(std::move(answer));
  changed_.notify();
}

void CallCollector::attempt_ended(Attempt attempt) {
  for (auto& [number, awaited] : awaited_)
    if (awaited.attempt == attempt)
      give_up(awaited, kCallLost,
              fmt::format("attempt {} ended before it answered", attempt.value));
  changed_.notify();
}

}  // namespace train
