// Checks a launcher's orders before they take effect. The launcher holds the token, or belongs to
// this user, but it may still have another version, or a bug. The same applies to what a supervisor
// sends. Pure.
#pragma once

#include <string_view>

#include "lib/wire/daemon_messages.h"

namespace train {

/// Return whether the text is safe as a folder, an argument and a part of a name, no matter who
/// chose it: 1 to 200 letters, digits, '.', '_' and '-', not starting with a dot.
bool is_run_id(std::string_view text);

/// Check the names, times and generation of a lease. InvalidArgument names the field and its
/// bounds.
Result<Unit> check_order(const AttachRun& message);
/// Check what a supervisor, which may be another user's program, claims to hold.
Result<Unit> check_order(const SupervisorHello& message);
/// Check that the amounts, counts and times of an attempt are finite, and no larger than makes
/// sense for a node.
Result<Unit> check_order(const PrepareAttempt& message);
/// Check the same of what a run wants to be kept for it.
Result<Unit> check_order(const ClaimRoom& message);
/// Check the times and sizes of an order to take a run's controller over.
Result<Unit> check_order(const PrepareFailover& message);

}  // namespace train
