// Which program is the lighthouse, and at which address of this machine the groups reach it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "launcher/core/job_spec.h"
#include "lib/base/result.h"

namespace train {

/// Return the words that start the lighthouse: those of the spec, else torchft_lighthouse. A name
/// without a folder is looked for beside the Python that runs the command, then on PATH.
/// `environment`: the workers'. `executable`: whether a file can be executed. NotFound says where
/// we looked, and what to install.
Result<std::vector<std::string>> lighthouse_command(
    const JobSpec& spec, const std::map<std::string, std::string>& environment,
    const std::function<bool(const std::string& path)>& executable);
/// The same, on this machine. Blocks.
Result<std::vector<std::string>> lighthouse_command(
    const JobSpec& spec, const std::map<std::string, std::string>& environment);

/// Return the numeric address of this machine from which it reaches the first of the nodes,
/// "HOST:PORT" or "ssh:HOST"; without nodes, the loopback address. Blocks.
Result<std::string> address_for_nodes(const std::vector<std::string>& nodes);

}  // namespace train
