#include "daemon/supervisor/workers/memory_profiles.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "daemon/supervisor/workers/worker_frames.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

constexpr Duration kAnswerWithin = seconds(15);  // after the time of the profile
constexpr std::size_t kErrorBytesMax = 4096, kEngineBytesMax = 64;

TimePoint now() { return std::chrono::steady_clock::now(); }

}  // namespace

Task<MemoryProfiles::Allocations> MemoryProfiles::ask(Rank rank, Duration time) {
  const std::uint64_t number = ++request_;
  Awaited& answer = awaited_.emplace(number, Awaited{.rank = rank}).first->second;
  const TakeMemoryProfile order{
      .request = number,
      .time_ms = static_cast<std::uint32_t>(std::chrono::duration_cast<milliseconds>(time).count()),
      .names = true};
  send_(rank, encode(order, attempt_));
  const TimePoint until = now() + time + kAnswerWithin;
  while (!answer.complete) {
    const auto in_time = co_await changed_.wait_until(until);
    const bool cancelled = in_time.has_error(), late = !cancelled && !*in_time;
    if (cancelled) {
      awaited_.erase(number);
      co_return in_time.error();
    }
    if (!late) continue;
    answer.error = fmt::format("the worker's SDK did not answer within {}",
                               format_duration(time + kAnswerWithin));
    answer.complete = true;
  }
  Awaited complete = std::move(answer);
  awaited_.erase(number);
  if (!complete.error.empty()) co_return Error{Errc::Unavailable, complete.error};
  co_return std::move(complete.allocations);
}

Result<Unit> MemoryProfiles::received(Rank rank, AllocationStacks message) {
  const auto found = awaited_.find(message.request);
  if (found == awaited_.end() || found->second.rank != rank || found->second.complete)
    return Unit{};  // nobody waits for it any more
  Awaited& answer = found->second;
  for (AllocationStack& stack : message.stacks) {
    answer.addresses += stack.addresses.size();
    if (stack.addresses.size() > kAllocationDepthMax || answer.addresses > kAddressesMax ||
        answer.allocations.stacks.size() == kStacksMax)
      return Error{Errc::ResourceExhausted, "a profile of memory exceeds a limit"};
    answer.allocations.stacks.push_back(std::move(stack));
  }
  for (const std::string& name : message.names) {
    if (answer.allocations.names.size() == kNamesMax)
      return Error{Errc::ResourceExhausted, "a profile of memory exceeds a limit"};
    answer.allocations.names.push_back(utf8_text(name, kNameBytesMax));
  }
  answer.allocations.engine = utf8_text(message.engine, kEngineBytesMax);
  answer.allocations.note = utf8_text(message.note, kErrorBytesMax);
  if (!message.error.empty()) answer.error = utf8_text(message.error, kErrorBytesMax);
  answer.allocations.facts = message.facts;
  answer.complete = message.last || !answer.error.empty();
  changed_.notify();
  return Unit{};
}

void MemoryProfiles::closed(Rank rank) {
  for (auto& [number, answer] : awaited_) {
    if (answer.rank != rank || answer.complete) continue;
    answer.error = "the worker closed its connection before the profile was complete";
    answer.complete = true;
  }
  changed_.notify();
}

}  // namespace train
