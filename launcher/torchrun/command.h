// The command of a worker, as torchrun would start it. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/torchrun/arguments.h"

namespace train {

/// Return the command. In the words behind the program, torchrun replaces $$ and ${local_rank}, so
/// where one has ${local_rank}, or with --virtual-local-rank, a shell does that in each worker.
Result<std::vector<std::string>> torchrun_command_line(
    const TorchrunArguments& arguments, const std::map<std::string, std::string>& environment);

}  // namespace train
