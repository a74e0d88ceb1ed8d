// What a traind needs that its launcher has started on this machine from another one, by srun or
// ssh: the token from its standard input, folders that nobody shares, an address to listen on, and
// the line by which the launcher learns where it is.
#pragma once

#include <optional>
#include <string>

#include "lib/base/result.h"
#include "lib/base/time.h"
#include "lib/net/endpoint.h"
#include "lib/net/token.h"
#include "lib/storage/private_roots.h"

namespace train {

/// How long the token may take.
inline constexpr Duration kTokenLimit = seconds(30);

/// Read one line of a descriptor, and nothing after it. Errors: Timeout; InvalidArgument, if it is
/// no token, or if the input ends before the line does. Blocks.
Result<Token> read_token_line(int fd, Duration limit);

/// Return where to listen: a port that the system picks, of the address that leads to the machine
/// where srun runs. InvalidArgument if Slurm has not started us.
Result<std::string> listen_towards_launcher();

/// Make folders with names that nobody can guess, as a private traind has them.
Result<PrivateFolders> make_remote_folders();

/// Return the line, with its end, that tells the launcher where this node is.
std::string announcement(const std::string& node_name, const Endpoint& endpoint);

}  // namespace train
