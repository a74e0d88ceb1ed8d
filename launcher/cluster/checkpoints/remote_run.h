// A run whose storage_path is an object store, as a launcher on this machine sees it. The launcher
// keeps a working folder here, which is like any other run's folder except for its checkpoints, and
// copies to the store whatever has to last. Each group of the journal counts only once it is in the
// store; reports, logs and the rest follow every few seconds (FORMAT.md section 7).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "lib/storage/journal.h"
#include "lib/storage/journal_segments.h"
#include "lib/storage/object_files.h"
#include "lib/storage/run_folder.h"
#include "lib/storage/run_lock.h"

namespace train {

/// Return <storage_path>/<name> or, for an object store, the working folder on this machine,
/// ~/.local/state/trainrun/remote/s3/bucket/….
std::string run_path(const std::string& storage_path, const std::string& name);
/// Return the URL of the run that a working folder belongs to, or the path of any other folder.
std::string location_of_run(const RunFolder& folder);
/// Return "train-run 42 on node-a" for a fetched working folder if a launcher on another machine
/// has recently shown that it is alive. The commands use it; launchers base no decision on it.
std::string running_elsewhere(const RunFolder& folder);
/// Return the run's location as the user names it: the URL or the path.
std::string run_location(const std::string& storage_path, const std::string& name);

class RemoteRun {
 public:
  /// Open the run at `url`. This sends no request to the store yet.
  static Result<std::unique_ptr<RemoteRun>> open(const std::string& url);
  ~RemoteRun();

  const std::string& url() const { return url_; }
  ObjectFiles& files() { return *files_; }
  ObjectStore& store() { return *store_; }

  /// Return whether any launcher has ever begun the run.
  Result<bool> exists();
  /// Return exit.json of an earlier launcher, or an empty string if there is none.
  Result<std::string> exit_json();
  /// Fetch the journal and, if another machine has had the run since, everything else too.
  Result<Unit> fetch(const RunFolder& folder);
  /// Leave a request to stop for a launcher on another machine.
  Result<Unit> ask_to_stop();

  /// Claim the run. AlreadyExists if a launcher on another machine owns it: its sign of life
  /// (owner.json) then changes while we watch for up to 15 s. We tell `say` before we watch. The
  /// caller holds the lock of the working folder here.
  Result<Unit> claim(const LockHolder& self, const RunFolder& folder, bool force,
                     const std::function<void(const std::string&)>& say);
  /// Drop a request to stop that an earlier launcher has not taken.
  Result<Unit> drop_stop_request();
  /// Record that `folder` has been up to date since our generation began, so that nothing in it is
  /// replaced by what is in the store unless another machine has had the run since.
  static Result<Unit> note_generation(const RunFolder& folder, Generation generation);
  JournalCopy journal_copy();
  /// Check that the run is still ours. Fenced if another launcher owns it.
  Result<Unit> check_owner();
  /// Leave a marker that lets a node check that it reaches the same store.
  Result<Unit> leave_marker(Generation generation, const std::string& text);

  /// From now on, tell others that we are alive, pass on `train-run stop` from other machines, and
  /// upload what is new in `folder`. Both callbacks run on threads of ours; `fenced` is called
  /// once, when another launcher owns the run.
  void begin(const RunFolder& folder, Generation generation,
             std::function<void(const std::string&)> warn,
             std::function<void(const Error&)> fenced);
  /// Upload everything that is left, exit.json last, and give up the run. Blocks.
  Result<Unit> finish();

 private:
  enum class Owner { Unknown, We, Another };  // We: as far as the store has told

  RemoteRun(std::string url) : url_(std::move(url)) {}
  Result<Unit> await_owner(const LockHolder& self, const RunFolder& folder,
                           const std::function<void(const std::string&)>& say);
  void show_life();
  void upload();
  void note_owner(Owner owner);
  bool pause(const bool& ends);
  void end(std::thread& thread, bool& ends);
  bool may_upload(bool all);
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

  std::string holder_;  // our owner.json without its count
  std::uint64_t beats_ = 0;
  std::string folder_;
  Generation generation_;
  std::uint64_t metrics_bytes_ = 0, metrics_segments_ = 0;
  std::map<std::string, std::string> put_;  // key → time and size of the newest upload
  std::set<std::string> times_due_;         // output.times: output has been put since they were
  int rounds_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void(const std::string&)> warn_;
  std::function<void(const Error&)> fenced_;
  Owner owner_ = Owner::Unknown;
  bool life_ends_ = false, uploads_end_ = false;
  // Two threads, because an upload may take longer than another launcher watches for signs of life.
  std::thread life_, uploads_;
};

}  // namespace train
