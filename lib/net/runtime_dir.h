// The folder where a user's traind has its sockets, for traind itself and for the commands that
// call it.
#pragma once

#include <string>

#include "lib/net/endpoint.h"

namespace train {

/// Return the folder to use if no flag names one: /run/trainrun as root, else
/// $XDG_RUNTIME_DIR/trainrun.
std::string default_runtime_dir();
/// Return the socket for commands of its user: `traind drain`, `train-run --detach`.
Endpoint control_endpoint(const std::string& runtime_dir);

}  // namespace train
