// Where the traind of a user has its sockets, for itself and for the commands that call it.
#pragma once

#include <string>

#include "lib/net/endpoint.h"

namespace train {

/// Where no flag names it: /run/trainrun as root, else $XDG_RUNTIME_DIR/trainrun.
std::string default_runtime_dir();
/// For commands of its user: `traind drain`, `train-run --detach`.
Endpoint control_endpoint(const std::string& runtime_dir);

}  // namespace train
