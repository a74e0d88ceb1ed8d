// Processes that were orphaned to this one, as pid 1 or as the subreaper of its descendants. What
// it spawned itself is its own until it is reaped, and no business of these calls. Main thread
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

/// This child is ours to wait for, or no longer.
void note_own_child(pid_t pid);
void forget_own_child(pid_t pid);

/// Reap those that have ended. For ever, each as soon as it has.
asio::awaitable<void> reap_adopted(asio::any_io_executor executor);
/// Kill those that were started with all of these variables ("NAME=VALUE") in their environment,
/// even in the middle of execve(), for which this may take 25 ms; with none, all. The way where
/// there is no cgroup. Returns how many there were.
int kill_adopted(const std::vector<std::string>& variables);
/// Kill those that were started with any of these.
int kill_adopted_with_any(const std::set<std::string>& variables);
/// Kill those of another user, whose environments we do not read.
int kill_adopted_of(uid_t uid);

}  // namespace train
