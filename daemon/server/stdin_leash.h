// Notices when the process that started us over ssh or srun ends: it holds the other end of our
// stdin, and closes it when it needs us no longer or dies.
#pragma once

#include <boost/asio/any_io_executor.hpp>

#include "lib/net/task.h"

namespace train {

/// Wait for the end of stdin, and ignore what is written to it. An Error if stdin cannot be waited
/// for, such as a plain file.
Task<Unit> wait_for_end_of_stdin(asio::any_io_executor executor);

}  // namespace train
