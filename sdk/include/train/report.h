// Functions that hand metrics and checkpoints over to the launcher.
#pragma once

#include <train/checkpoint.h>
#include <train/config.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace train {

/// Hand metrics to the launcher and go on. This is never a barrier, and it does not wait for disk
/// or network: a queue of 8 MiB takes the metrics, and the call waits for room only when the queue
/// is full. Any thread may call it; reports of one rank keep their order. Each rank may report as
/// often as it likes; rank 0's metrics drive the progress line, stop conditions and scores. Throws
/// Stopped when the run is being stopped gracefully and this rank has reached the step where all
/// ranks stop.
void report(const Dict& metrics);

enum class Upload {
  Async,  // training goes on while the checkpoint is stored
  Sync,   // report() returns once it is committed, or was given up (the run says why)
  None    // as Async, but the files are in the run's storage already: nothing is copied
};
struct ReportOptions {
  Upload upload = Upload::Async;
};

/// Report metrics with a checkpoint. Together, the k-th reports with a checkpoint of all ranks make
/// one checkpoint, which is committed in the background once the shards of all ranks are there.
/// Ranks with nothing to add report a `Checkpoint::from_writer` that writes nothing. The directory
/// forms copy (or move) their files before this returns.
///
/// Upload::None takes a folder that the program wrote itself (a parallel writer, directly below
/// storage_path()). The folder is renamed; its files are digested and synced where they are, and
/// become the checkpoint. All files must be complete when the call is made. From then on the folder
/// belongs to the run: it is gone from its place, and is part of the checkpoint or is removed with
/// a checkpoint that is not kept. Each rank reports a folder of its own; when several ranks wrote
/// one folder, one of them reports it after a barrier(). Throws Failure("invalid_argument") and
/// leaves the folder as it was when the folder lies on another file system than the run, when the
/// run's storage is an object store, and when this node does not see the run's folder.
void report(const Dict& metrics, const Checkpoint& checkpoint, const ReportOptions& options = {});

/// Wait until every checkpoint that this rank has reported is committed or was given up. Return the
/// folder of the newest one; nothing when that one was given up (the run says why), or when none
/// was reported. Upload::Sync calls this within report(); every rank must report before any of them
/// can finish waiting. Throws Stopped as report() does.
std::optional<std::filesystem::path> wait_for_checkpoint();

/// Set the function that saves the last step: when the run stops gracefully at a report that
/// carried no checkpoint, the SDK calls every rank's `make` there, inside report(), and keeps its
/// checkpoint. There is one function; a later call replaces it.
void on_stop(std::function<Checkpoint()> make);

/// Return true once the run is being stopped. A loop that reports rarely may ask, and report a
/// checkpoint now.
bool should_stop();

/// Set this rank's result, any JSON value ≤ 1 MiB. The last call counts. run.json has the results
/// by rank, exit.json rank 0's.
void set_result(const Value& value);

}  // namespace train
