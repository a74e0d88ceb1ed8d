// A ReportSink takes reports: the report log, progress.csv, TensorBoard. ReportPipeline calls the
// sinks on its own thread; calls block on the disk. Each rank's reports arrive in order. Repeated
// reports are harmless: a sink drops those that it already holds. Errors name the file.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lib/base/metrics.h"
#include "lib/base/result.h"

namespace train {

class ReportSink {
 public:
  virtual ~ReportSink() = default;
  /// Take all of the reports, or on an error none.
  virtual Result<Unit> on_reports(std::span<const ReportRecord> reports) = 0;
  /// Pass the buffered data to the system, so that a crash of the launcher does not lose it.
  virtual Result<Unit> flush() = 0;
  /// Flush, then make the data survive a crash of the machine.
  virtual Result<Unit> sync() = 0;
  virtual bool keeps_histograms() const { return false; }
  /// Return warnings for the end of the run: what the sink could not hold.
  virtual std::vector<std::string> warnings() const { return {}; }
};

}  // namespace train
