#include "daemon/core/run_end_watch.h"

#include <fmt/format.h>

#include <utility>

#include "lib/base/exit_code.h"

namespace train {

void RunEndWatch::attached(Link link, std::string run, Duration orphan_timeout) {
  links_.insert(link);
  run_ = std::move(run);
  orphan_timeout_ = orphan_timeout;
  exit_code_.reset();
}

void RunEndWatch::ended(Link link, int exit_code) {
  if (links_.empty() || links_.contains(link)) exit_code_ = exit_code;
}

void RunEndWatch::closed(Link link, TimePoint now) {
  if (links_.erase(link) > 0 && links_.empty()) since_ = now;
}

std::optional<RunEndWatch::End> RunEndWatch::advance(bool idle, TimePoint now) const {
  if (!idle || (!links_.empty() && !exit_code_)) return std::nullopt;
  if (exit_code_) return End{*exit_code_};
  if (now < next_deadline()) return std::nullopt;
  if (run_.empty())
    return End{exit_code::kUnavailable,
               fmt::format("no launcher has come within {}: look at the member that starts the run",
                           format_duration(within_))};
  return End{exit_code::kUnavailable,
             fmt::format("the launcher of the run {} died, and no other one came within {}", run_,
                         format_duration(orphan_timeout_))};
}

TimePoint RunEndWatch::next_deadline() const {
  if (!links_.empty() || exit_code_) return TimePoint::max();
  const Duration wait = run_.empty() ? within_ : orphan_timeout_;
  return wait < TimePoint::max() - since_ ? since_ + wait : TimePoint::max();
}

int RunEndWatch::code_after_drain() const { return exit_code_.value_or(exit_code::kRequeue); }

}  // namespace train
