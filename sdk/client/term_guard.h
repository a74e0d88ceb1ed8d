// What a worker does about a TERM in a Slurm job. At the job's end, Slurm sends one to every
// process of the step, while the launcher, which gets one too, asks all ranks for a checkpoint. A
// worker that died of it at once would make that checkpoint impossible.
#pragma once

#include <sys/types.h>

#include <chrono>

namespace train::sdk {

/// How long a TERM from somebody else is held for the launcher's order to stop.
inline constexpr std::chrono::milliseconds kTermHold{10'000};

enum class HeldTerm { None, Waiting, Over };

/// From now on, a TERM ends this process at once only if the supervisor, this process itself or
/// nobody known has sent it. Another one ends it after `hold`, unless stop_is_ordered() has been
/// called by then. Processes that are forked are not changed. Does nothing outside a Slurm job, or
/// if the program handles TERM itself. Call it at the beginning of each run.
void guard_against_term(pid_t supervisor, std::chrono::milliseconds hold = kTermHold);

/// The run is being stopped: this process ends in good order, or by the supervisor. Any thread may
/// call.
void stop_is_ordered();

/// For tests: return what became of a TERM that was held.
HeldTerm held_term();

}  // namespace train::sdk
