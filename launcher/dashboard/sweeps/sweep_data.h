// What is known of one sweep: reads its folder again and again; what was read stays, and only what
// is new is read. Calls block on the disk. SweepReader locks it.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "launcher/core/search/search_spec.h"
#include "launcher/dashboard/folder_files.h"
#include "launcher/dashboard/line_reader.h"
#include "launcher/dashboard/sweeps/trial_curve.h"
#include "launcher/dashboard/sweeps/trial_table.h"
#include "lib/storage/journal_format.h"

namespace train {

/// A trial as pages show it: what the journal says, and of a running one what it has reported.
struct TrialRow {
  int trial = 0;
  std::string run;         // the id of its newest run
  std::string_view state;  // running, finished, stopped, failed, invalid, interrupted
  const TrialView* view = nullptr;
  std::optional<double> time = {}, value = {}, best = {}, best_time = {};
};

class SweepData {
 public:
  static constexpr std::size_t kFollowedMax = 1024;  // running trials whose reports are followed
  static constexpr std::size_t kCurvesMax = 2048;    // trials whose curves stay
  static constexpr std::uint64_t kUpdateBytesMax = 32u << 20;  // of reports, at once

  SweepData(std::string id, FolderFiles files);

  const std::string& id() const { return id_; }
  const std::string& name() const { return name_; }
  const std::string& owner() const { return owner_; }
  const FolderFiles& files() const { return files_; }

  /// Read what is new of the journal, the spec and the running trials' reports.
  void update();
  bool live() const { return live_; }
  const TrialTable& table() const { return table_; }
  /// Return what it searches; nothing if its spec cannot be read.
  const std::optional<SearchSpec>& search() const { return search_; }
  /// Return why the folder cannot be read in full, or "".
  std::string damage() const;
  /// Return "running", "finished", "errored" or "interrupted".
  std::string_view state() const;
  /// Return how many trials there will be; nothing if the spec cannot be read.
  std::optional<std::int64_t> planned() const;
  TrialRow row(int trial) const;
  /// Return the trial with the best value so far; failed and invalid ones do not count.
  std::optional<int> best() const;
  /// Return the version of the trial's row: it grows whenever the row changes.
  std::uint64_t version(int trial) const;
  std::uint64_t version() const { return table_.version; }
  /// Return how often the folder was read from its beginning: then all is new.
  int readings() const { return readings_; }

  /// Return the trial's curve, read as far as `bytes_max` allows, which what was read is subtracted
  /// from. `more`: there is more. The reference is good until the next call.
  const TrialCurve& curve(int trial, std::uint64_t& bytes_max, bool& more);

 private:
  bool take(std::string_view line);
  void read_search();
  void follow();
  TrialCurve& curve_of(int trial);

  const std::string id_, name_;
  const FolderFiles files_;
  const std::string owner_;
  LineReader lines_{"sweep.jsonl", kJournalLineBytesMax};
  TrialTable table_;
  std::string damage_;
  bool live_ = false;
  int readings_ = 0;
  std::optional<FileStamp> spec_stamp_;
  std::optional<SearchSpec> search_;
  std::map<int, TrialCurve> curves_;
};

/// Return the number of the trial one of whose runs has this name below `trials`.
std::optional<int> trial_in(std::string_view name);
/// Return the number of a trial that the text is: digits alone.
std::optional<int> trial_number(std::string_view text);

/// Lets one thread at a time use a SweepData.
class SweepReader {
 public:
  SweepReader(const std::string& id, FolderFiles files) : id_(id), data_(id, std::move(files)) {}

  const std::string& id() const { return id_; }
  /// Bring the data up to date, and call `use` with it.
  template <class Use>
  auto with(Use&& use) {
    const std::lock_guard lock(mutex_);
    data_.update();
    return use(data_);
  }

 private:
  const std::string id_;
  std::mutex mutex_;
  SweepData data_;
};

}  // namespace train
