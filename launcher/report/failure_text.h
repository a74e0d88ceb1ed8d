// Describes in one line for a person how a worker ended, and how we know. Pure: takes the wait
// status and what else the supervisor found, and returns words. Also contains the one rule that
// turns the end of a run into an exit code.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lib/base/error.h"
#include "lib/model/worker_end.h"

namespace train {

enum class EndKind {
  Exited,       // end.status: the exit code
  Killed,       // end.status: the signal
  Lost,         // no news from its node
  StartFailed,  // never ran; end.status: errno of the spawn
  Hung,         // no sign of life for longer than its limit; we killed it
};

/// A worker's end with everything known about it.
struct WorkerFailure {
  EndKind kind = EndKind::Exited;
  std::int32_t rank = 0;
  std::string node = {};
  std::string role = {};  // "reader 1"; empty in a job of one role
  std::uint32_t attempt = 0;
  /// A worker that had been asked to stop is collateral, never a root cause.
  WorkerEnd end = {};
  std::string program = {};  // of StartFailed
  std::string detail = {};   // of Lost: "no heartbeat for 10 s"; of Hung: the whole text
  bool marks = true;         // of Hung: its loop is marked by the SDK

  /// Return "std::runtime_error: the learning rate is 0"; empty if user code reported nothing.
  std::string thrown() const;
};

struct FailureText {
  std::string cause;      // "rank 3 on node-b was killed by SIGSEGV (segmentation fault)"
  std::string how_known;  // "its wait status; trainrun sent no signal"
  bool operator==(const FailureText&) const = default;
};

inline constexpr std::size_t kErrorTypeBytesMax = 256;
inline constexpr std::size_t kErrorWhatBytesMax = 64u << 10;
inline constexpr std::size_t kErrorStackBytesMax = 256u << 10;
inline constexpr std::size_t kCrashPlaceBytesMax = 1u << 10;
inline constexpr std::size_t kCorePathBytesMax = 4u << 10;
inline constexpr std::size_t kCauseBytesMax = 2u << 10;

/// Return the text in UTF-8. What it quotes from others stays within the limits above.
FailureText failure_text(const WorkerFailure& failure);

/// Return "SIGSEGV", or "signal 77" for a signal without a name.
std::string signal_name(int signal);

enum class Outcome {
  Succeeded,    // every rank finished, or a stop rule was met
  Failed,       // a worker or a node failed, and no restart was left
  Interrupted,  // Ctrl-C, or `train-run stop`
  Preempted,    // SIGTERM: checkpoint, stop, and ask to be requeued
  Refused,      // before any worker ran; `error` says why
  Replaced,     // another train-run took over the run
};

/// What the exit code depends on.
struct Ending {
  Outcome outcome = Outcome::Succeeded;
  std::optional<WorkerFailure> root;  // of Failed; none: a whole node was lost, or it is unknown
  std::optional<Errc> error;          // of Refused
};

/// Return the exit code of train-run. For a failed worker: its own code if that is 1 or 3-63,
/// 128+signal, 137 if it ran out of memory, 126 or 127 if its command could not be started,
/// otherwise 1. For all other endings see lib/base/exit_code.h.
int exit_code_of(const Ending& ending);

}  // namespace train
