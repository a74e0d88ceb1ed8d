// Members: the same train-run command on each node starts a traind there, and one of them, which
// has the index 0, also launches the run on all of them (--member). Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/host_list.h"
#include "lib/base/result.h"

namespace train {

/// What --member says about where the others are.
struct MemberSource {
  enum class Kind { Dns, Hosts, Slurm };
  Kind kind = Kind::Dns;
  DnsName dns;             // Dns
  std::string hosts_file;  // Hosts
  std::uint16_t port = 0;  // Slurm; 0: one that is the same for all members of the step
};
/// Parse dns:NAME[:PORT], hosts:FILE or slurm[:PORT].
Result<MemberSource> parse_member_source(std::string_view text);

using MemberEnvironment = std::map<std::string, std::string>;

/// Return the index of a member that its environment numbers: JOB_COMPLETION_INDEX, or else
/// SLURM_PROCID. NotFound if neither is set; InvalidArgument if it is no number.
Result<int> member_index(const MemberEnvironment& environment);

/// A member that srun has started.
struct SlurmMember {
  int index = 0;
  std::vector<std::string> nodes;  // of all members, HOST:PORT, in the order of their indexes
};
/// Return what the environment of a task says. `port`: that of --member; 0: one of our own, which
/// follows from the numbers of job and step, so that jobs that share a node rarely meet.
/// NotFound outside a step; InvalidArgument if it has not one task on each node.
Result<SlurmMember> read_slurm_member(const MemberEnvironment& environment, std::uint16_t port);

/// Return the place of the first of `nodes` (HOST:PORT) that is this machine: it has this
/// machine's name or one of its addresses (`own`), or `resolve` says so. `resolve` is asked only if
/// no name or address is the machine's.
std::optional<std::size_t> place_of_this_machine(
    const std::vector<std::string>& nodes, const std::string& host_name,
    const std::vector<std::string>& own,
    const std::function<std::vector<std::string>(const std::string&)>& resolve);

/// Split HOST:PORT, with or without brackets, which has been checked.
DnsName split_address(const std::string& address);

}  // namespace train
