// The reports of a run, as rounds, from the metrics.jsonl in its folder (docs/driver.md).
#pragma once

#include <train/trainer.h>

#include <cstdint>
#include <optional>
#include <string>

#include "sdk/trainer/report_rounds.h"

namespace train::trainer {

class ReportLog {
 public:
  ReportLog() = default;
  ~ReportLog();
  ReportLog(const ReportLog&) = delete;
  ReportLog& operator=(const ReportLog&) = delete;

  /// The run's folder is known. The file has `logged` bytes of earlier launchers already.
  void begin(std::string folder, std::uint64_t logged);
  /// So many bytes of the file are on disk, in whole lines.
  void logged(std::uint64_t bytes);
  /// An attempt has workers. `found_running`: an earlier launcher has logged reports of it.
  void attempt_began(int attempt, int world_size, const std::string& resumes_from,
                     bool found_running);
  /// Return the next round that is complete, or nothing. Throws Failure("io" or "corrupt").
  std::optional<Round> next();

  const std::string& folder() const { return folder_; }   // empty until it is known
  int newest_attempt() const { return newest_attempt_; }  // that has begun; −1: none has
  ReportRounds& rounds() { return rounds_; }
  const ReportRounds& rounds() const { return rounds_; }

 private:
  void read_lines();
  Round read(const RoundPlaces& places) const;
  Dict read_report(const LinePlace& place, bool& has_checkpoint) const;

  std::string folder_;
  int fd_ = -1;
  std::uint64_t read_to_ = 0, logged_ = 0;  // bytes
  int newest_attempt_ = -1;
  ReportRounds rounds_;
};

}  // namespace train::trainer
