// Hosts that train-run reaches by ssh: how they are named, lists of them as batch systems write
// them, and the command that joins us to the traind of one. Pure. The names come from files and
// variables that anybody may have written, and go to ssh and to its proxy commands.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/core/host_list.h"
#include "launcher/core/job_spec.h"
#include "lib/base/result.h"

namespace train {

/// What stands before such a host in cluster.nodes: "ssh:user@gpu-1".
inline constexpr std::string_view kSshPrefix = "ssh:";

struct SshHost {
  std::string user;  // empty: ssh chooses
  std::string host;
  std::uint16_t port = 0;  // 0: ssh chooses
  bool operator==(const SshHost&) const = default;
};

/// Parse "gpu-1", "user@gpu-1", "gpu-1:2222", "user@[fd00::1]:2222". InvalidArgument, with what is
/// wrong about it, such as "has no host".
Result<SshHost> parse_ssh_host(std::string_view text);

/// Return the hosts of a list for ssh (read_host_words()). InvalidArgument if it names none, too.
Result<std::vector<std::string>> parse_host_list(std::string_view text);

/// Where the batch job that we are in names its hosts.
struct BatchHosts {
  std::string variable;  // PBS_NODEFILE, LSB_DJOB_HOSTFILE or LSB_HOSTS
  std::string value;
  bool is_file = false;  // the value is the path of a list
};
/// NotFound outside jobs of PBS and LSF.
Result<BatchHosts> hosts_of_batch_job(const std::map<std::string, std::string>& environment);

/// Return what is wrong about the program's path on the hosts, "" for nothing: their shells read
/// it.
std::string remote_program_mistake(std::string_view program);

/// Return the arguments of ssh, without its own name.
std::vector<std::string> ssh_arguments(const SshHost& host, const SshConfig& config);

/// Return those by which a user would log in there by hand, such as " -p 2222 me@gpu-1".
std::string ssh_arguments_by_hand(const SshHost& host, const SshConfig& config);

}  // namespace train
