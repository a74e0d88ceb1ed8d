#include "daemon/supervisor/workers/crash_unwinder.h"

#include <algorithm>
#include <utility>

#include "lib/net/blocking.h"

namespace train {

Task<CrashStack> CrashUnwinder::stack_of(ProcessCapture capture, TimePoint deadline) {
  const auto crash = std::make_shared<Crash>(Crash{std::move(capture), deadline});
  waiting_.push_back(crash);
  while (!crash->stack) {
    if (unwinds_) {
      const auto woken = co_await changed_.wait_until(TimePoint::max());
      if (woken.has_error()) co_return woken.error();
    } else {
      const auto done = co_await unwind_waiting();
      if (done.has_error()) co_return done.error();
    }
  }
  co_return std::move(*crash->stack);
}

Task<Unit> CrashUnwinder::unwind_waiting() {
  const std::vector<std::shared_ptr<Crash>> batch = std::exchange(waiting_, {});
  TimePoint deadline = TimePoint::max();
  std::vector<ProcessCapture> captures;
  for (const auto& crash : batch) {
    deadline = std::min(deadline, crash->deadline);
    captures.push_back(std::move(crash->capture));
  }
  std::function<Result<std::vector<CrashStack>>()> work =
      [unwind = unwind_, captures = std::move(captures), deadline] {
        return Result<std::vector<CrashStack>>(unwind(captures, deadline));
      };
  unwinds_ = true;
  auto unwinding = run_unjoined<std::vector<CrashStack>>(std::move(work));
  auto stacks = co_await std::move(unwinding);
  unwinds_ = false;
  for (std::size_t i = 0; i < batch.size(); ++i)
    batch[i]->stack = stacks && i < stacks->size() ? std::move((*stacks)[i]) : CrashStack{};
  changed_.notify();
  if (stacks.has_error()) co_return stacks.error();
  co_return Unit{};
}

}  // namespace train
