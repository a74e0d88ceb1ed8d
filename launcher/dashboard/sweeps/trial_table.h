// What a sweep's journal says of its trials: a fold over its records, one after the other, so that
// a longer journal costs only its new records. Pure. Any text may be in the records: the journal
// may belong to another user.
#pragma once

#include <boost/json/object.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/storage/journal_format.h"

namespace train {

/// A run of a trial. Only with `pbt`, trials have several, one after the other.
struct TrialPart {
  int number = 1;
  std::optional<int> from = {};  // the trial whose checkpoint it began from
  double at = 0;                 // the time of that checkpoint
};

struct TrialView {
  std::string parameters = {};            // JSON of an object; empty: too large to be kept
  std::string began = {}, ended = {};     // RFC 3339; ended: empty while it has not
  std::string end = {};                   // finished, stopped, failed, invalid; empty: it has not
  std::string cause = {};                 // of its end
  std::optional<std::int64_t> code = {};  // train-run's
  std::optional<double> time = {}, value = {};  // of its newest report, once it has ended
  std::optional<double> best = {}, best_time = {};
  std::vector<TrialPart> parts = {{}};  // the newest last
  std::uint64_t changed = 0;            // the table's version when it did last
};

struct TrialTable {
  static constexpr std::size_t kParametersBytesMax = 16u << 10;  // of a trial
  static constexpr std::size_t kTextBytesMax = 128u << 20;       // of all trials
  static constexpr std::size_t kPartsMax = 10'000;               // of a trial
  static constexpr std::size_t kCauseBytesMax = 4u << 10;

  std::string host = {}, began = {}, ended = {}, last_time = {};  // RFC 3339; ended: of the sweep
  std::int64_t pid = 0;
  std::optional<std::int64_t> code = {};  // of the sweep's end
  std::string cause = {};
  int more = 0;                // trials in addition to those of the spec
  bool searcher_done = false;  // there will be no more
  std::uint64_t last_seq = 0, version = 0;
  std::vector<TrialView> trials = {};  // by number
  std::string odd = {};                // what a record says that cannot be, or ""

  /// Take the next record in. One that cannot be is left out, and noted in `odd`.
  void add(const JournalRecord& record);

 private:
  void begin_trial(const JournalRecord& record);
  void exploit_trial(const JournalRecord& record);
  void end_trial(const JournalRecord& record);
  std::string kept(std::string text, std::size_t bytes_max);
  std::size_t text_bytes_ = 0;
};

}  // namespace train
