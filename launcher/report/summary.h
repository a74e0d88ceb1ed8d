// Tells at the end of a run what happened and why: in a block of text on the terminal, and in the
// files that tell programs the same (exit.json and run.json of the run, cause.json of an attempt,
// error.json of a rank). Pure: takes a RunSummary, returns text. The root cause comes first;
// workers that ended because of it are counted, not listed.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/report/data_verdict.h"
#include "launcher/report/failure_text.h"
#include "lib/base/error.h"
#include "lib/base/metrics.h"
#include "lib/base/time.h"
#include "lib/model/time_accounts.h"

namespace train {

/// Why an attempt ended.
struct RootCause {
  FailureText text = {};
  std::string node = {};                     // empty: none can be named
  std::optional<WorkerFailure> worker = {};  // none: a node was lost with all its ranks
  int collateral = 0;                        // workers that ended because of it
  std::vector<std::string> lines = {};       // without a worker: the last ones of its output
};

/// Return the root cause for one worker: failure_text() of its end.
RootCause root_cause_of(WorkerFailure failure, int collateral);
/// Return the root cause for a node with all its workers: "node-b, with ranks 2-3, was lost: no
/// heartbeat for 10 s".
RootCause root_cause_of_lost_node(std::string node, const std::vector<std::int32_t>& ranks,
                                  std::string detail, int collateral);

struct AttemptSummary {
  std::uint32_t attempt = 0;
  int world_size = 0;
  int nnodes = 0;
  std::chrono::system_clock::time_point begun = {};
  Duration duration = Duration::zero();
  std::string cause = {};  // why it ended; empty: it did what it was meant to do
  /// Rank 0's reports after the newest checkpoint, which the next attempt makes again.
  std::int64_t redone = 0;
  Duration lost = Duration::zero();  // the time since that checkpoint, or since it began
  TimeAccounts time = {};            // of its workers
};

struct CheckpointSummary {
  std::string name = {};  // checkpoint_000003
  std::string path = {};
  std::string score_metric = {};  // empty: none is configured
  std::optional<double> score = {};
};

/// A dataset's ingest workers.
struct IngestSummary {
  std::string dataset = {};
  std::int64_t workers = 0, serving = 0;  // now, or at last
  std::int64_t deaths = 0;                // in all attempts
};

struct RunSummary {
  std::string run = {};
  std::string path = {};  // the run's folder
  std::string logs = {};  // the folder to look in: the root rank's, or that of all ranks
  Outcome outcome = Outcome::Succeeded;
  std::string reason = {};  // the stop rule that was met; "Ctrl-C", "SIGTERM", "train-run stop"
  std::optional<Error> error = {};  // of Refused
  int world_size = 0;
  int nnodes = 0;
  std::chrono::system_clock::time_point begun = {}, ended = {};
  Duration duration = Duration::zero();
  std::vector<AttemptSummary> attempts = {};
  std::optional<RootCause> root = {};  // of Failed
  std::optional<CheckpointSummary> best = {}, latest = {};
  /// Rank 0's reports after the latest checkpoint, which are lost.
  std::optional<std::int64_t> lost_steps = {};
  TimeAccounts time = {};                // of the workers of all attempts, and between these
  std::optional<DataVerdict> data = {};  // the rank that waited most for data, if it did
  std::vector<IngestSummary> ingest = {};
  Metrics metrics = {};                   // rank 0's last report
  std::vector<std::string> results = {};  // set_result() by rank, JSON; empty string: none
  std::vector<std::string> warnings = {};
  std::string resume_command = {};  // empty: nothing to resume
  bool workers_stay = false;        // their processes wait for another run
};

struct TextStyle {
  bool color = false;
};

/// Return "2 ingest workers for train, 1 death"; while it runs, "2 ingest workers for train (1
/// serves), 1 death".
std::string ingest_text(const IngestSummary& ingest, bool live = false);

int exit_code_of(const RunSummary& summary);
/// Return the final block, with its last newline.
std::string summary_text(const RunSummary& summary, TextStyle style);

/// Return {"code", "outcome", "cause", "root_rank", "node", "exit_code", "signal", "attempt",
/// "checkpoint", "lost_steps", …}.
std::string exit_json(const RunSummary& summary);
/// Return the last line of --output json: {"event":"end", and the members of exit.json}.
std::string end_event(const RunSummary& summary);
/// Return that line of a run that was refused before it had a folder, without its newline.
std::string refusal_event(int code, const Error& error);
/// Return the line that the workers of the run before are not used, without its newline.
std::string workers_not_used_event(const Error& why);
/// What an attempt's failed ranks tell a driver.
struct ExceptionNews {
  std::uint32_t attempt = 0;
  std::string cause = {};
  std::vector<WorkerFailure> ranks = {};
};
inline constexpr std::size_t kExceptionBytesMax = 512u << 10;
/// Return the line `exception` of docs/driver.md. It names as many ranks as fit into
/// kExceptionBytesMax, in order, and counts the others.
std::string exception_event(const ExceptionNews& news, std::chrono::system_clock::time_point at);
/// Return the whole run, as train-run status shows it later: attempts, metrics, checkpoints,
/// results by rank.
std::string run_json(const RunSummary& summary);
std::string cause_json(const RootCause& cause, std::uint32_t attempt);
/// Return torchelastic's format (message.message, message.extraInfo, message.errorCode: the exit
/// code, or minus the signal), plus our keys.
std::string error_json(const WorkerFailure& failure);

}  // namespace train
