// Makes rounds of the lines of metrics.jsonl: the n-th report of every rank of an attempt. Pure:
// takes lines and what train-run says of attempts, returns rounds. Of a report that waits for other
// ranks' it keeps only the place, since a rank may be millions of reports ahead.
#pragma once

#include <train/trainer.h>

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace train::trainer {

/// Where a line of metrics.jsonl is.
struct LinePlace {
  std::uint64_t offset = 0;
  std::uint32_t bytes = 0;
};

/// A round whose reports are yet to be read.
struct RoundPlaces {
  int attempt = 0;
  std::uint64_t number = 0, ordinal = 0;
  bool redone = false;
  std::vector<LinePlace> lines;  // by rank
};

/// The front of a line: whose report it is.
struct ReportFront {
  int rank = 0, attempt = 0;
  std::uint64_t number = 0;  // report_seq
};
/// Read the front of a line that train-run wrote; nothing if it is none.
std::optional<ReportFront> read_front(std::string_view line);

class ReportRounds {
 public:
  /// An attempt runs with so many ranks, from the checkpoint of that name ("": from the beginning).
  void attempt_began(int attempt, int world_size, const std::string& resumes_from);
  /// The report with this number carried the checkpoint.
  void committed(const std::string& checkpoint, int attempt, std::uint64_t number);
  /// Take in a line. Lines of other attempts than the newest are dropped.
  void add(const ReportFront& report, LinePlace place);
  /// Return the next complete round.
  std::optional<RoundPlaces> next();

  /// Return the ranks that the oldest incomplete round waits for, if another rank has reported it.
  std::vector<int> missing() const;
  /// Return how many reports each rank of the newest attempt has made.
  const std::vector<std::uint64_t>& counts() const { return counts_; }

 private:
  int attempt_ = -1;
  std::uint64_t base_ = 0;  // the ordinal that the attempt began after
  std::uint64_t given_ = 0, highest_ = 0;
  std::vector<std::deque<LinePlace>> waiting_;  // by rank
  std::vector<std::uint64_t> counts_;
  std::map<std::string, std::uint64_t> ordinals_;  // of checkpoints
};

}  // namespace train::trainer
