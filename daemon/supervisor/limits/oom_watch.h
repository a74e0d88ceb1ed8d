// The kernel kills one process where a group has no memory left. In cgroup v2 it is told to kill
// all of a worker's (memory.oom.group); in v1 we do, lest a worker waits for ever for a child.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "daemon/supervisor/limits/cgroup.h"

namespace train {

namespace asio = boost::asio;

/// Until the group is removed, or all of it was killed. Ends at once where there is nothing to do.
asio::awaitable<void> kill_all_when_out_of_memory(asio::any_io_executor executor, Cgroup group);

}  // namespace train
