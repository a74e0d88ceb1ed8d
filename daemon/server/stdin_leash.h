// Notices the end of whoever started us over ssh or srun: that process holds the other end of our
// stdin, and lets go of it when it is done with us or dies.
#pragma once

#include <boost/asio/any_io_executor.hpp>

#include "lib/net/task.h"

namespace train {

/// Wait until stdin is at its end, and ignore what is written there. An Error if stdin is something
/// that cannot be waited for, such as a plain file.
Task<Unit> wait_for_end_of_stdin(asio::any_io_executor executor);

}  // namespace train
