// A run whose storage_path is an object store, as a launcher on this machine has it: a working
// folder here, which is a run's folder like any other but for its checkpoints, and what makes it
// last in the store. The journal is put there group by group before it counts; reports, logs and
// the rest follow every few seconds (FORMAT.md section 7).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "lib/storage/journal.h"
#include "lib/storage/journal_segments.h"
#include "lib/storage/object_files.h"
#include "lib/storage/run_folder.h"
#include "lib/storage/run_lock.h"

namespace train {

/// <storage_path>/<name>; of an object store the working folder on this machine,
/// ~/.local/state/trainrun/remote/s3/bucket/….
std::string run_path(const std::string& storage_path, const std::string& name);
/// What a working folder is of: the URL; of any other folder its path.
std::string place_of_run(const RunFolder& folder);
/// Of a working folder that was fetched: "train-run 42 on node-a", if a launcher on another machine
/// has lately said that it lives; for people, no decision rests on it.
std::string running_elsewhere(const RunFolder& folder);
/// As the user names it: the URL or the path.
std::string run_place(const std::string& storage_path, const std::string& name);

class RemoteRun {
 public:
  /// Nothing is asked of the store yet.
  static Result<std::unique_ptr<RemoteRun>> open(const std::string& url);
  ~RemoteRun();

  const std::string& url() const { return url_; }
  ObjectFiles& files() { return *files_; }
  ObjectStore& store() { return *store_; }

  /// Whether any launcher has begun it.
  Result<bool> exists();
  /// exit.json of an earlier launcher; empty where there is none.
  Result<std::string> exit_json();
  /// Bring the journal here, and, where another machine has had the run since, all else.
  Result<Unit> fetch(const RunFolder& folder);
  /// Leave word for a launcher on another machine.
  Result<Unit> ask_to_stop();

  /// AlreadyExists: a launcher on another machine owns it: its sign of life (owner.json) changes
  /// while we watch for up to 15 s, which `say` is told of before. Nobody but us holds the lock of
  /// the working folder here.
  Result<Unit> claim(const LockHolder& self, const RunFolder& folder, bool force,
                     const std::function<void(const std::string&)>& say);
  JournalCopy journal_copy();
  /// Fenced once another launcher owns it.
  Result<Unit> check_owner();
  /// For a node to look for: that it reaches the same store.
  Result<Unit> leave_mark(Generation generation, const std::string& text);

  /// From now on: tell others that we live, pass on `train-run stop` of other machines, and put
  /// what is new in `folder`. Both are called on a thread of ours; `fenced` once, when another
  /// launcher owns the run.
  void begin(const RunFolder& folder, Generation generation,
             std::function<void(const std::string&)> warn,
             std::function<void(const Error&)> fenced);
  /// Put all that is left, and give the run up. exit.json goes last. Blocks.
  Result<Unit> finish();

 private:
  RemoteRun(std::string url) : url_(std::move(url)) {}
  void live();
  Result<Unit> beat();
  Result<Unit> put_new_files(bool all);
  Result<Unit> put_file(const std::string& path, const std::string& key);
  Result<Unit> put_metrics();
  void warn(const std::string& text);

  const std::string url_;
  std::shared_ptr<ObjectStore> store_;
  std::unique_ptr<ObjectFiles> files_;
  std::mutex journal_mutex_;
  std::unique_ptr<JournalSegments> journal_;

  std::string holder_;  // our owner.json but for its count
  std::uint64_t beats_ = 0;
  std::string folder_;
  Generation generation_;
  std::uint64_t metrics_bytes_ = 0, metrics_segments_ = 0;
  std::map<std::string, std::string> put_;  // key: time and size of what was put last
  int rounds_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void(const std::string&)> warn_;
  std::function<void(const Error&)> fenced_;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace train
