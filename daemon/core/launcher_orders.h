// What a launcher asks for is checked before it counts: it holds the token, or is this user's, and
// may still be of another version, or broken. So is what a supervisor says. Pure.
#pragma once

#include <string_view>

#include "lib/wire/daemon_messages.h"

namespace train {

/// What may be a folder, an argument and a part of a name, whoever chose it: 1 to 200 letters,
/// digits, '.', '_' and '-', the first no dot.
bool is_run_id(std::string_view text);

/// Names, times and generation of a lease. InvalidArgument names the field and its bounds.
Result<Unit> check_order(const AttachRun& message);
/// What a supervisor, which may be another user's program, says that it holds.
Result<Unit> check_order(const SupervisorHello& message);
/// Amounts, counts and times of an attempt: finite, and no larger than a node can mean.
Result<Unit> check_order(const PrepareAttempt& message);

}  // namespace train
