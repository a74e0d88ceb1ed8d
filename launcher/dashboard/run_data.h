// What is known of one run: reads its folder again and again; what was read stays, and only what is
// new is read. Calls block on the disk. RunReader locks it.
#pragma once

#include <array>
#include <boost/json/object.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "launcher/cluster/reports/output_times.h"
#include "launcher/dashboard/folder_files.h"
#include "launcher/dashboard/journal_reader.h"
#include "launcher/dashboard/report_readers.h"
#include "launcher/dashboard/run_row.h"
#include "lib/samples/sample_table.h"

namespace train {

/// Return the object that a file holds; an empty one if there is none, or it is too large.
boost::json::object read_object(const FolderFiles& files, const std::string& name,
                                std::size_t bytes_max);

/// A small file of JSON, read again when it has changed.
class JsonFile {
 public:
  explicit JsonFile(std::string name) : name_(std::move(name)) {}
  void update(const FolderFiles& files);
  /// Return its object; an empty one if there is none, or it is too large.
  const boost::json::object& object() const { return object_; }

 private:
  std::string name_;
  std::optional<FileStamp> stamp_;
  boost::json::object object_;
};

class RunData {
 public:
  static constexpr std::size_t kSeriesMax = 4;  // ranks whose metrics stay

  /// `location`: as the user names the run: the folder, or its URL. `trial`: of a sweep's trial.
  RunData(std::string id, FolderFiles files, std::string location,
          std::optional<TrialOfSweep> trial = {});

  const std::string& id() const { return id_; }
  const std::string& location() const { return location_; }
  const FolderFiles& files() const { return files_; }

  /// Read what is new of the journal and of small files.
  void update();
  bool live() const { return live_; }
  /// Return whether this user may ask the run for something: it is live, and its folder ours.
  bool is_ours() const;
  const RunView& view() const { return journal_.view(); }
  const JournalReader& journal() const { return journal_; }
  const boost::json::object& exit() const { return exit_.object(); }
  /// Return run.json, which the launcher writes at the end.
  const boost::json::object& run_json();
  RunRow row() const;
  /// Return what the time of the workers of an attempt was used for; zero if nothing tells.
  TimeAccounts time_of(const AttemptView& attempt) const;
  /// Return the same for the whole run.
  TimeAccounts time() const;

  /// Return the metrics of a rank, read to the end of the file.
  const RankSeriesReader& series(std::int32_t rank);
  /// Return what each rank has reported.
  const RankReportsReader& reports();
  /// Return the newest samples, a table of each kind. Empty if there are none.
  const std::vector<SampleTable>& samples();
  /// Return when the output of an attempt arrived, or nullptr if nothing tells.
  const OutputTimesReader* times(std::int64_t attempt);
  /// Forget what series() and reports() have read.
  void forget();

 private:
  void read_newest_report();
  void read_time();

  const std::string id_, location_, name_;
  const std::optional<TrialOfSweep> trial_;
  const FolderFiles files_;
  std::string owner_;
  JournalReader journal_{files_};
  JsonFile exit_{"exit.json"}, run_json_{"run.json"};
  bool live_ = false;
  std::optional<FileStamp> metrics_stamp_, samples_stamp_;
  std::array<std::optional<FileStamp>, 2> time_stamps_;  // of the files that tell the times below
  TimeAccounts told_time_, newest_time_;  // of the run; of its newest attempt, while it lives
  std::optional<ReportRecord> report_;    // rank 0's newest
  std::map<std::int32_t, std::unique_ptr<RankSeriesReader>> series_;
  std::unique_ptr<RankReportsReader> reports_;
  std::vector<SampleTable> samples_;
  std::optional<std::pair<std::int64_t, OutputTimesReader>> times_;
};

/// Lets one thread at a time use a RunData.
class RunReader {
 public:
  RunReader(const std::string& id, FolderFiles files, const std::string& location,
            std::optional<TrialOfSweep> trial = {})
      : id_(id), is_trial_(trial.has_value()), data_(id, std::move(files), location, trial) {}

  const std::string& id() const { return id_; }
  bool is_trial() const { return is_trial_; }
  /// Bring the data up to date, and call `use` with it.
  template <class Use>
  auto with(Use&& use) {
    const std::lock_guard lock(mutex_);
    data_.update();
    return use(data_);
  }

 private:
  const std::string id_;
  const bool is_trial_;
  std::mutex mutex_;
  RunData data_;
};

}  // namespace train
