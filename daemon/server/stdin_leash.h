// Whoever started us over ssh or srun holds the other end of our stdin, and lets go of it at the
// end, its own included.
#pragma once

#include <boost/asio/any_io_executor.hpp>

#include "lib/net/task.h"

namespace train {

/// Until stdin is at its end; what is written there has no meaning. An Error when it is none that
/// can be waited for, as a plain file.
Task<Unit> wait_for_end_of_stdin(asio::any_io_executor executor);

}  // namespace train
