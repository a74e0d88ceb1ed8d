// Holds back what workers wait for: under a driver's pace, a report is acknowledged only once the
// driver has, too. A round is the n-th report of every rank of an attempt. Pure.
//
// Workers count their own reports that are not acknowledged (JobContext::report_window), so that a
// launcher that dies, or is followed by one without a driver, needs to tell them nothing.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "lib/base/ids.h"

namespace train {

/// The most rounds that a driver may leave unacknowledged: so many reports of the greatest size fit
/// into a worker's queue, so that no rank waits for room there while its group pauses.
inline constexpr int kReportWindowMax = 64;

class ReportPace {
 public:
  struct Ack {
    Attempt attempt = {};
    Rank rank = {};
    std::uint64_t report_seq = 0;  // this one and all before it
  };
  using Acks = std::vector<Ack>;

  /// `paced`: there is a driver that acknowledges rounds.
  explicit ReportPace(bool paced) : paced_(paced) {}

  /// These reports are on disk. Return which acknowledgements to send now.
  Acks written(const Acks& acks);
  /// The driver is done with the attempt's first `rounds` rounds. The methods from here on return
  /// the acknowledgements that are due by that.
  Acks acknowledged(Attempt attempt, std::uint64_t rounds);
  /// Hold nobody of the attempt any more: a rank that trains has ended, so that rounds may never be
  /// complete; or it began under another launcher, whose pace its workers have.
  Acks let_go(Attempt attempt);
  /// There is no driver any more.
  Acks driver_gone();

 private:
  struct Known {
    std::uint64_t written = 0, sent = 0;  // report_seq
  };
  void begin(Attempt attempt);
  Acks due();

  bool paced_;
  Attempt attempt_{};  // the newest
  std::uint64_t rounds_ = 0;
  std::map<Rank, Known> ranks_;
};

}  // namespace train
