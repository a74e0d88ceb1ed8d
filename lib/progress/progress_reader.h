// The supervisor's side of the progress page.
#pragma once

#include "lib/progress/progress_page.h"

namespace train {

/// Return what the page says. `now` is the time of CLOCK_MONOTONIC in nanoseconds. The page may
/// contain anything: numbers are brought into their range, texts into valid UTF-8 without control
/// characters. A worker that was stopped in the middle of a mark gives a mixture of two marks.
WorkerProgress read_progress(const ProgressPage& page, std::uint64_t now);

}  // namespace train
