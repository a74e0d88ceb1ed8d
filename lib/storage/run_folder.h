// This file defines the paths in a run's folder (FORMAT.md section 1), and creates such folders.
#pragma once

#include <string>
#include <string_view>

#include "lib/base/ids.h"
#include "lib/storage/file_system.h"

namespace train {

/// Only computes paths; creates and reads nothing.
class RunFolder {
 public:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  std::string lock() const { return in(".lock"); }
  /// `train-run stop` makes this file; the owner of the run removes it.
  std::string stop_request() const { return in(".stop"); }
  /// Return where a launcher moves the request that it follows: a controller that takes its place
  /// follows it too.
  std::string stop_request_taken() const { return in(".stop.taken"); }
  std::string owner_key() const { return in(".owner"); }
  /// Names the run that has taken the workers which stayed after this one.
  std::string workers_taken() const { return in(".workers-taken"); }
  std::string spec() const { return in("spec.yaml"); }
  std::string resolved_spec() const { return in("spec.resolved.yaml"); }
  std::string journal() const { return in("events.jsonl"); }
  std::string metrics() const { return in("metrics.jsonl"); }
  std::string progress_csv() const { return in("progress.csv"); }
  std::string tensorboard() const { return in("tb"); }
  std::string samples() const { return in("samples.jsonl"); }
  std::string newest_samples() const { return in(".samples.now.jsonl"); }
  std::string run_json() const { return in("run.json"); }
  std::string exit_json() const { return in("exit.json"); }
  std::string log() const { return in("train-run.log"); }
  std::string setup_log() const { return in("setup.log"); }
  /// What the callbacks' programs are told; their states and what they print are beside it.
  std::string callbacks() const { return in("callbacks"); }
  std::string callback_events() const { return in("callbacks/events.jsonl"); }
  std::string checkpoints() const { return in("checkpoints"); }
  std::string code() const { return in("code"); }
  std::string attempt(Attempt id) const;            // attempts/000
  std::string rank(Attempt id, Rank number) const;  // attempts/000/ranks/0003
  std::string stdout_log(Attempt id, Rank number) const;
  std::string stderr_log(Attempt id, Rank number) const;
  std::string output_times(Attempt id) const;  // when both of all ranks arrived
  std::string error_json(Attempt id, Rank number) const;
  std::string cause_json(Attempt id) const;
  std::string goodput_json(Attempt id) const;
  std::string stacks(Attempt id) const;    // attempts/000/stacks, a folder
  std::string profiles(Attempt id) const;  // attempts/000/profiles, a folder
  std::string cores(Attempt id) const;     // attempts/000/cores, a folder
  /// attempts/000/nodes/n1/setup.log. Of the node's name, other characters than [A-Za-z0-9._-]
  /// become "_".
  std::string node_setup_log(Attempt id, std::string_view node) const;

 private:
  std::string in(std::string_view name) const { return join_path(path_, name); }
  std::string path_;
};

/// Return InvalidArgument unless `name` matches [A-Za-z0-9][A-Za-z0-9._-]{0,127}.
Result<Unit> check_run_name(std::string_view name);

/// Make <storage_path>/<name>, and the storage path if missing. AlreadyExists if the name is taken;
/// the caller resumes that run, or refuses.
Result<RunFolder> create_run_folder(FileSystem& fs, const std::string& storage_path,
                                    const std::string& name);
/// Make a run's folder under a default name: the first of name, name-2, name-3, … that is free, so
/// that two runs that start in the same second do not collide.
Result<RunFolder> create_unique_run_folder(FileSystem& fs, const std::string& storage_path,
                                           const std::string& name);

}  // namespace train
