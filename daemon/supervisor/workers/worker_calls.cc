#include "daemon/supervisor/workers/worker_calls.h"

#include <fmt/format.h>

#include <utility>

#include "lib/base/utf8.h"
#include "lib/model/worker_call.h"
#include "lib/wire/codec.h"

namespace train {

void WorkerCalls::call(const CallWorkers& order) {
  if (order.ranks.empty()) {
    for (const auto& [rank, slot] : slots_) call_one(rank, order);
    return;
  }
  for (const std::int32_t rank : order.ranks) call_one(Rank{rank}, order);
}

void WorkerCalls::call_one(Rank rank, const CallWorkers& order) {
  const auto found = slots_.find(rank);
  if (found == slots_.end())
    return answer_for(rank, order.request, kCallRefused, "the node has no such rank");
  if (found->second.said_goodbye)
    return answer_for(rank, order.request, kCallLost, "it has left its loop");
  std::map<std::uint64_t, Frame>& early = before_join_[rank];
  if (early.size() + unanswered_[rank].size() >= kWaitingCallsMax)
    return answer_for(rank, order.request, kCallRefused,
                      fmt::format("{} calls wait for it already", kWaitingCallsMax));
  const Frame frame =
      encode(CallWorkers{.request = order.request, .name = order.name, .argument = order.argument},
             attempt_);
  if (found->second.connected)
    pass_on(rank, order.request, frame);
  else
    early.emplace(order.request, frame);
}

void WorkerCalls::joined(Rank rank) {
  const std::map<std::uint64_t, Frame> early = std::move(before_join_[rank]);
  before_join_.erase(rank);
  for (const auto& [request, frame] : early) pass_on(rank, request, frame);
}

void WorkerCalls::pass_on(Rank rank, std::uint64_t request, const Frame& frame) {
  if (!slots_.at(rank).knows_calls)
    return answer_for(rank, request, kCallRefused,
                      "its program was built with an SDK that knows no such request");
  if (unanswered_[rank].insert(request).second) send_(rank, frame);
}

Result<Unit> WorkerCalls::received(WorkerAnswered answer) {
  if (answer.result.size() > kCallValueBytesMax)
    return Error{Errc::Protocol, "the result of a call is too long"};
  const auto waiting = unanswered_.find(Rank{answer.rank});
  if (waiting == unanswered_.end() || waiting->second.erase(answer.request) == 0) return Unit{};
  answer.error = utf8_text(answer.error, kCallErrorBytesMax);
  if (answer.kind != kCallThrown) answer.kind = answer.kind == kCallLost ? kCallLost : kCallRefused;
  uplink_.send(encode(answer, attempt_));
  return Unit{};
}

void WorkerCalls::gone(Rank rank, const std::string& why) {
  const auto waiting = unanswered_.find(rank);
  if (waiting == unanswered_.end()) return;
  const std::set<std::uint64_t> requests = std::move(waiting->second);
  unanswered_.erase(waiting);
  for (const std::uint64_t request : requests) answer_for(rank, request, kCallLost, why);
}

void WorkerCalls::answer_for(Rank rank, std::uint64_t request, std::string_view kind,
                             std::string why) {
  uplink_.send(encode(WorkerAnswered{.rank = rank.value,
                                     .request = request,
                                     .error = std::move(why),
                                     .kind = std::string(kind)},
                      attempt_));
}

}  // namespace train
