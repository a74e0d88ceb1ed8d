// Runs a journal through faults, and checks every state that a crash may leave.
// journal_crash_test.cc runs the real journal and wrong ones through it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "lib/storage/journal.h"
#include "tests/fakes/store.h"

namespace train {

inline const std::string kJournalPath = "/run/events.jsonl";
inline const std::string kJournalTime = "2026-11-21T09:38:00.123456Z";

/// One incarnation's access to a journal: Journal, or a wrong one.
class JournalOwner {
 public:
  virtual ~JournalOwner() = default;
  virtual std::vector<JournalRecord> found() const = 0;  // what it found when it opened
  virtual Result<Generation> take_generation() = 0;
  virtual Result<Unit> append(const std::vector<boost::json::object>& events) = 0;
};
using OpenJournal = std::function<Result<std::unique_ptr<JournalOwner>>(FileSystem&)>;
Result<std::unique_ptr<JournalOwner>> open_right_journal(FileSystem& fs);

/// Knows what was acknowledged, and what may be there besides.
class JournalLedger {
 public:
  /// Return what is wrong with a journal that holds `found`, or "". It must hold every acknowledged
  /// record in order, followed at most by the first complete records of one unacknowledged group.
  std::string violation(const std::vector<JournalRecord>& found) const;
  /// An owner begins from `found`: a later one may not find less.
  void opened(std::vector<JournalRecord> found);
  void begins(const std::vector<boost::json::object>& events, Generation generation);
  /// The group that began last is acknowledged.
  void acknowledged();

  const std::vector<JournalRecord>& certain() const { return certain_; }
  std::string text() const;

 private:
  std::vector<JournalRecord> certain_;
  std::vector<std::vector<JournalRecord>> possible_;  // a beginning of one of these
};

struct Cut {
  std::uint64_t at = 0;  // the n-th change after the previous cut; 0: never
  std::size_t bytes = 0;
};
struct JournalFaults {
  std::uint64_t fail_at = 0;  // this change of the file system fails
  int error_number = 0;
  Cut kill = {};   // this owner ends here, and the next begins on the same machine
  Cut power = {};  // counted from the kill, if there is one
  std::string describe() const;
};

/// Let three owners follow each other on `disk`; stop early when the power is lost. Return what
/// went wrong meanwhile, or "".
std::string live(fakes::MemoryFileSystem& disk, const OpenJournal& open,
                 const JournalFaults& faults, JournalLedger& ledger);

/// Recovers from and checks all states that crashes leave in such lives.
class JournalExplorer {
 public:
  enum class Until { AllSeen, FirstViolation };
  explicit JournalExplorer(OpenJournal open, Until until = Until::AllSeen)
      : open_(std::move(open)), until_(until) {}
  /// Make syncs of files or folders do nothing.
  void skip_syncs(bool of_files, bool of_folders) {
    skip_files_ = of_files, skip_folders_ = of_folders;
  }

  void cut_power_everywhere();
  void kill_then_cut_power();
  void fail_then_cut_power(int error_number);
  void fail_then_kill_then_cut_power();
  void cut_power_again_while_recovering();

  std::size_t distinct_states() const { return seen_.size(); }
  const std::vector<std::string>& violations() const { return violations_; }

 private:
  bool done() const { return until_ == Until::FirstViolation && !violations_.empty(); }
  std::unique_ptr<fakes::MemoryFileSystem> new_disk() const;
  /// Return false if the life ended before the last of the faults.
  bool explore(const JournalFaults& faults, std::size_t tear_every);
  void look_at_all(const fakes::MemoryFileSystem& disk, const JournalLedger& ledger,
                   std::size_t tear_every, const std::string& how);
  void look(std::unique_ptr<fakes::MemoryFileSystem> after, const JournalLedger& ledger,
            const std::string& known, const std::string& how);
  std::string recover(fakes::MemoryFileSystem& disk, JournalLedger ledger) const;

  OpenJournal open_;
  Until until_;
  bool skip_files_ = false, skip_folders_ = false;
  bool keep_states_ = false;
  std::vector<std::pair<std::unique_ptr<fakes::MemoryFileSystem>, JournalLedger>> kept_;
  std::unordered_set<std::uint64_t> seen_;
  std::vector<std::string> violations_;
};

}  // namespace train
