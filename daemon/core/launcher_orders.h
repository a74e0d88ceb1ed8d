// Checks what a launcher asks for before it counts. The launcher holds the token, or belongs to
// this user, but may still have another version, or be broken. The same goes for what a supervisor
// says. Pure.
#pragma once

#include <string_view>

#include "lib/wire/daemon_messages.h"

namespace train {

/// Return whether the text can be a folder, an argument and a part of a name, whoever chose it: 1
/// to 200 letters, digits, '.', '_' and '-', not starting with a dot.
bool is_run_id(std::string_view text);

/// Check the names, times and generation of a lease. InvalidArgument names the field and its
/// bounds.
Result<Unit> check_order(const AttachRun& message);
/// Check what a supervisor, which may be another user's program, says that it holds.
Result<Unit> check_order(const SupervisorHello& message);
/// Check that the amounts, counts and times of an attempt are finite, and no larger than makes
/// sense for a node.
Result<Unit> check_order(const PrepareAttempt& message);

}  // namespace train
