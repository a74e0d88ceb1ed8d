// Reaps and kills processes that were orphaned to this one, as pid 1 or as the subreaper of its
// descendants. These calls leave alone the children that this process spawned itself. Main thread
// only.
#pragma once

#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <set>
#include <string>
#include <vector>

namespace train {

namespace asio = boost::asio;

/// Note that this child is ours to wait for, or no longer is.
void note_own_child(pid_t pid);
void forget_own_child(pid_t pid);

/// Reap adopted processes forever, each as soon as it has ended.
asio::awaitable<void> reap_adopted(asio::any_io_executor executor);
/// Kill the adopted processes that were started with all of these variables ("NAME=VALUE") in their
/// environment; with no variables, kill all of them. This includes processes in the middle of
/// execve(), which may take 25 ms. Use it where there is no cgroup. Return how many there were,
/// including those that were killed earlier and have not ended yet.
int kill_adopted(const std::vector<std::string>& variables);
/// Kill the adopted processes that were started with any of these variables.
int kill_adopted_with_any(const std::set<std::string>& variables);
/// Kill the adopted processes of another user, whose environments we do not read.
int kill_adopted_of(uid_t uid);

}  // namespace train
