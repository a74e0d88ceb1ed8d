// The paths in a sweep's folder (docs/sweep.md), and how a sweep or one of its trials is found.
// Calls block.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "launcher/core/search/search_controller.h"
#include "launcher/core/search/sweep_records.h"
#include "lib/base/result.h"
#include "lib/storage/file_system.h"
#include "lib/storage/run_folder.h"
#include "lib/storage/run_lock.h"

namespace train {

/// Only computes paths; creates and reads nothing.
class SweepFolder {
 public:
  explicit SweepFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string lock() const { return path_ + "/.lock"; }
  /// `train-run stop` makes this file; the owner of the sweep removes it. See stop_text().
  std::string stop_request() const { return path_ + "/.stop"; }
  std::string daemon_note() const { return path_ + "/.daemon"; }
  std::string spec() const { return path_ + "/spec.yaml"; }
  std::string resolved_spec() const { return path_ + "/spec.resolved.yaml"; }
  std::string journal() const { return path_ + "/sweep.jsonl"; }
  /// The exit code of a train-run that has come to an end of its own; none while one has the sweep.
  std::string exit_json() const { return path_ + "/exit.json"; }
  std::string trials() const { return path_ + "/trials"; }
  std::string trials_csv() const { return path_ + "/trials.csv"; }
  std::string best() const { return path_ + "/best"; }
  /// What the searcher, a program of the user's, writes to stderr.
  std::string searcher_log() const { return path_ + "/searcher.log"; }
  /// Checkpoints that trials may take over from others, each a folder.
  std::string donors() const { return path_ + "/donors"; }
  std::string donor(const std::string& checkpoint) const { return donors() + "/" + checkpoint; }
  /// "0003"; of a trial that has begun anew, "0003.2".
  static std::string trial_name(int trial, int part = 1);
  std::string trial(int number, int part = 1) const {
    return trials() + "/" + trial_name(number, part);
  }

 private:
  std::string path_;
};

/// Return whether the folder is a sweep's.
bool is_sweep(const std::string& path);
/// Return whether runs that are stored there are a sweep's trials.
bool holds_trials(const std::string& storage_path);

/// Return the folder of the sweep that a user names, by its path or by its name below
/// `storage_path`; none if there is no such sweep.
std::optional<std::string> find_sweep(std::string given, const std::string& storage_path);
/// Return the folder of the trial that SWEEP/3 names, of its newest part; none if that is not what
/// `given` is.
std::optional<std::string> find_trial(const std::string& given, const std::string& storage_path);

/// Keep a committed checkpoint of a trial for others, whatever becomes of it there: as links to the
/// same files where the file system has these, else as copies. `name`: below `donors`. NotFound:
/// the run has removed it meanwhile, or not all of it is here.
Result<Unit> keep_checkpoint(FileSystem& files, const SweepFolder& folder,
                             const std::string& checkpoint, const std::string& name);
/// Remove the kept checkpoints but those of these names. What nobody has kept there stays.
void remove_checkpoints(const SweepFolder& folder, const std::set<std::string>& needed);

/// Remove the checkpoints of a run that has ended; the rest of it stays. AlreadyExists: another
/// launcher has the run.
Result<Unit> clear_checkpoints(FileSystem& files, const RunFolder& run, const LockHolder& self);

/// Write the table of all trials, as a whole.
Result<Unit> write_trials_csv(const SweepFolder& folder, const SearchController& search);
/// Let the link `best` lead to that part of the trial.
Result<Unit> link_best(const SweepFolder& folder, int trial, int part);

}  // namespace train
