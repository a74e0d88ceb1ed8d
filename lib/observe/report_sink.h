// A ReportSink takes reports: the report log, progress.csv, TensorBoard. The driver calls a sink on
// a pool thread, one call at a time; calls block on the disk. Reports come in each rank's order.
// Sending some again is harmless: a sink drops what it holds already.
#pragma once

#include <span>

#include "lib/base/metrics.h"
#include "lib/base/result.h"

namespace train {

class ReportSink {
 public:
  virtual ~ReportSink() = default;
  /// Take all of the reports, or none on an error.
  virtual Result<Unit> on_reports(std::span<const ReportRecord> reports) = 0;
  /// Hand what is buffered to the system, so that a crash of the launcher loses nothing of it.
  virtual Result<Unit> flush() = 0;
  /// Flush, then make the data survive a crash of the machine.
  virtual Result<Unit> sync() = 0;
};

}  // namespace train
