// The folder with the sockets of a user's traind, for traind itself and for the commands that call
// it.
#pragma once

#include <string>

#include "lib/net/endpoint.h"

namespace train {

/// Return the folder to use if no flag names one: /run/trainrun for root, else
/// $XDG_RUNTIME_DIR/trainrun, or /tmp/trainrun-UID if that variable is not set.
std::string default_runtime_dir();
/// Return the socket for its user's commands: `traind drain`, `train-run --detach`.
Endpoint control_endpoint(const std::string& runtime_dir);

}  // namespace train
