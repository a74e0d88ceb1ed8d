#include "launcher/core/report_pace.h"

#include <algorithm>
#include <limits>

namespace train {

ReportPace::Acks ReportPace::written(const Acks& acks) {
  if (!paced_) return acks;
  Acks passed;
  for (const Ack& ack : acks) {
    if (ack.attempt > attempt_) begin(ack.attempt);
    if (ack.attempt < attempt_) {
      passed.push_back(ack);
      continue;
    }
    Known& known = ranks_[ack.rank];
    known.written = std::max(known.written, ack.report_seq);
    known.sent = std::min(known.written, rounds_);
    // Also if nothing is new: the rank has sent reports again, and missed this.
    if (known.sent > 0) passed.push_back({attempt_, ack.rank, known.sent});
  }
  return passed;
}

ReportPace::Acks ReportPace::acknowledged(Attempt attempt, std::uint64_t rounds) {
  if (attempt > attempt_) begin(attempt);
  if (attempt < attempt_) return {};
  rounds_ = std::max(rounds_, rounds);
  return due();
}

ReportPace::Acks ReportPace::let_go(Attempt attempt) {
  return acknowledged(attempt, std::numeric_limits<std::uint64_t>::max());
}

ReportPace::Acks ReportPace::driver_gone() {
  paced_ = false;
  rounds_ = std::numeric_limits<std::uint64_t>::max();
  return due();
}

void ReportPace::begin(Attempt attempt) {
  attempt_ = attempt;
  rounds_ = 0;
  ranks_.clear();
}

ReportPace::Acks ReportPace::due() {
  Acks due;
  for (auto& [rank, known] : ranks_) {
    const std::uint64_t reached = std::min(known.written, rounds_);
    if (reached <= known.sent) continue;
    known.sent = reached;
    due.push_back({attempt_, rank, reached});
  }
  return due;
}

}  // namespace train
