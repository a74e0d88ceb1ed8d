// The rules of the spec's `stop: {epoch: 10, val_acc: 0.9}`. Pure. ReportPipeline passes every
// report to the rules; once a rule is met, the driver requests a graceful stop. Only rank 0's
// reports count.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lib/base/metrics.h"

namespace train {

struct StopRule {
  std::string metric;
  double at_least = 0;
};

class StopRules {
 public:
  explicit StopRules(std::vector<StopRule> rules);

  /// Return the reason to stop, in words, if this report meets a rule: "val_acc is 0.93, and stop
  /// asks for 0.9".
  std::optional<std::string> on_report(const ReportRecord& report);
  /// Take in a report under an earlier launcher, for the warnings alone.
  void on_earlier_report(const ReportRecord& report) { (void)on_report(report); }
  /// Return a warning, for the end of the run, for each rule whose metric rank 0 never reported, or
  /// never as a number.
  std::vector<std::string> warnings() const;

 private:
  enum class Seen { Never, NotANumber, Number };
  struct Watched {
    StopRule rule;
    Seen seen = Seen::Never;
  };
  std::vector<Watched> watched_;
};

}  // namespace train
