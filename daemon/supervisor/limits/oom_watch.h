// When a group has no memory left, the kernel kills one process. In cgroup v2 we have it kill all
// of a worker's processes (memory.oom.group). In v1 we kill them, so that a worker does not wait
// forever for a child.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include "daemon/supervisor/limits/cgroup.h"

namespace train {

namespace asio = boost::asio;

/// Watch the group until it is removed or killed. Return at once if there is nothing to do.
asio::awaitable<void> kill_all_when_out_of_memory(asio::any_io_executor executor, Cgroup group);

}  // namespace train
