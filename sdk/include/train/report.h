// Handing over metrics and checkpoints.
#pragma once

#include <train/checkpoint.h>
#include <train/config.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace train {

/// Hand metrics to the launcher, and go on: never a barrier, and no wait for disk or network (a
/// queue of 8 MiB takes them; only when that is full does the call wait for room). Any thread may
/// call it; reports of one rank keep their order. Each rank may report as often as it likes; rank
/// 0's metrics drive the progress line, stop conditions and scores. Throws Stopped when the run is
/// being stopped gracefully and this rank has reached the step where all ranks stop.
void report(const Dict& metrics);

enum class Upload {
  Async,  // training goes on while the checkpoint is stored
  Sync,   // report() returns once it is committed, or was given up (the run says why)
  None    // as Async, but the files are in the run's storage already: nothing is copied
};
struct ReportOptions {
  Upload upload = Upload::Async;
};

/// The same with a checkpoint: the k-th report with a checkpoint of every rank together makes one
/// checkpoint, committed in the background when the parts of all ranks are there. Ranks with
/// nothing to add report `Checkpoint::from_writer` that writes nothing. The directory forms copy
/// (or move) their files before returning.
///
/// Upload::None takes a folder that the program wrote itself (a parallel writer, straight below
/// storage_path()): it is renamed, its files are digested and synced where they are, and become the
/// checkpoint. All of them are whole when the call is made. From then on the folder is the run's:
/// gone from its place, part of the checkpoint, or removed with one that is not kept. Each rank
/// reports a folder of its own; one that several ranks wrote is reported by one of them after a
/// barrier(). Throws Failure("invalid_argument"), with the folder left as it was, where it lies in
/// another file system than the run, where the run's storage is an object store, and where this
/// node does not see the run's folder.
void report(const Dict& metrics, const Checkpoint& checkpoint, const ReportOptions& options = {});

/// Wait until every checkpoint that this rank has reported is committed, or was given up. The
/// folder of the newest one; none where that was given up (the run says why), or none was reported.
/// Upload::Sync calls it within report(); every rank reports before any of them can be done
/// waiting. Throws Stopped as report() does.
std::optional<std::filesystem::path> wait_for_checkpoint();

/// Called instead of a lost step: when the run stops gracefully at a report that carried no
/// checkpoint, every rank's `make` is called there, inside report(), and its checkpoint is kept.
/// One function; a later call replaces it.
void on_stop(std::function<Checkpoint()> make);

/// True once the run is being stopped: a loop that reports rarely may look, and report a checkpoint
/// now.
bool should_stop();

/// This rank's result, any JSON value ≤ 1 MiB; the last call counts. run.json has it by rank,
/// exit.json rank 0's.
void set_result(const Value& value);

}  // namespace train
