// Functions that hand metrics and checkpoints to the launcher.
#pragma once

#include <train/checkpoint.h>
#include <train/config.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace train {

/// Hand metrics to the launcher and return. The metrics go into a queue of 8 MiB; the call does not
/// wait for disk, network or other ranks, only for room when the queue is full. The one exception:
/// while the run is being stopped gracefully, or the group is about to be resized, the call may
/// wait for the other ranks, so that all of them end at the same report. Any thread may call it;
/// reports of one rank keep their order. Each rank may report as often as it likes; rank 0's
/// metrics drive the progress line, stop conditions and scores. Throws Stopped when the run is
/// being stopped gracefully and this rank has reached the step where all ranks stop.
void report(const Dict& metrics);

enum class Upload {
  Async,  // training continues while the checkpoint is stored
  Sync,   // report() returns once it is committed or given up (the run reports why)
  None    // like Async, but the files are already in the run's storage: nothing is copied
};
struct ReportOptions {
  Upload upload = Upload::Async;
};

/// Report metrics with a checkpoint. The k-th such report of each rank adds its shard to one
/// checkpoint, which is committed in the background once the shards of all ranks are stored. A rank
/// with nothing to add reports a `Checkpoint::from_writer` that writes nothing. The directory forms
/// copy (or move) their files before this returns. Waits while two earlier checkpoints of this rank
/// are neither committed nor given up.
///
/// Upload::None takes a folder that the program itself wrote into the run's storage, for example
/// with a parallel writer. The folder is renamed; the supervisor digests and syncs its files where
/// they are, and they become part of the checkpoint. All files must be complete when the call is
/// made. From then on the folder belongs to the run: it is gone from its place, and either becomes
/// part of the checkpoint or is removed with a checkpoint that is not kept. Each rank reports a
/// folder of its own; when several ranks wrote one folder, one of them reports it after a
/// barrier(). Throws Failure("invalid_argument"), and leaves the folder as it was, when the folder
/// lies on another file system than the run, when the run's storage is an object store, and when
/// this node does not see the run's folder.
void report(const Dict& metrics, const Checkpoint& checkpoint, const ReportOptions& options = {});

/// Wait until every checkpoint that this rank has reported is committed or given up. Return the
/// folder of the newest one; nothing when that one was given up (the run reports why), or when none
/// was reported. Upload::Sync calls this within report(); every rank must report before any of them
/// can finish waiting. Throws Stopped as report() does.
std::optional<std::filesystem::path> wait_for_checkpoint();

/// Set the function that saves the last step: when the run stops gracefully at a report that
/// carried no checkpoint, the SDK calls `make` there on every rank, inside report(), and keeps the
/// checkpoint that it returns. There is one function; a later call replaces it.
void on_stop(std::function<Checkpoint()> make);

/// Return true where all ranks are to report a checkpoint, because somebody asked for one
/// (`train-run checkpoint now`, the dashboard). Call it once a step: on every rank it is the same
/// call that returns true, so all ranks must make their calls at the same places of the loop.
/// Report a checkpoint then, and go on. The call may wait a moment for the other ranks' news, never
/// for their loops. A program that never calls this, but has set on_stop, need do nothing: the SDK
/// makes such a checkpoint by itself, in the next report that all ranks have in common.
bool checkpoint_requested();

/// Return true once the run is being stopped. A loop that reports rarely may poll this, and report
/// a checkpoint right away.
bool should_stop();

/// Set this rank's result, any JSON value ≤ 1 MiB. The last call wins. run.json contains the
/// results by rank, exit.json that of rank 0. Throws Failure("invalid_argument") for a value with
/// more than 31 levels of nested dicts and lists.
void set_result(const Value& value);

}  // namespace train
