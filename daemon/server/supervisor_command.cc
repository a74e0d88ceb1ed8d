#include "daemon/server/supervisor_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include "daemon/supervisor/limits/confinement.h"
#include "daemon/supervisor/supervisor.h"

namespace train {
namespace {

/// Return the environment of the supervisor, which is ours. For another user's supervisor, whose
/// environment that user can read, return only what reveals nothing of root's.
std::map<std::string, std::string> environment_for(const std::optional<UserAccount>& account) {
  std::map<std::string, std::string> env;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = text.substr(0, equals);
    if (account && name != "PATH" && name != "LANG" && name != "TZ" && !name.starts_with("LC_"))
      continue;
    env[std::string(name)] = text.substr(equals + 1);
  }
  if (account) {
    env["HOME"] = account->home;
    env["LOGNAME"] = env["USER"] = account->name;
    env["SHELL"] = account->shell;
  }
  return env;
}

/// Make a cgroup that belongs to the user, for the supervisor and its workers. If that fails, they
/// stay in ours, and traind finds them by their uid.
std::optional<Cgroup> cgroup_for(const SupervisorFiles& files, const UserAccount& account,
                                 const PrepareAttempt& message) {
  const auto group = Cgroup::create(files.cgroup);
  if (!group) return std::nullopt;
  limit_attempt_of_user(files, message);
  return group->delegate_to(account.uid, account.gid);
}

}  // namespace

void limit_attempt_of_user(const SupervisorFiles& files, const PrepareAttempt& message) {
  constexpr std::uint64_t kSupervisorMemory = 1u << 30;
  if (files.uid == ::geteuid()) return;
  const auto group = Cgroup::existing(files.cgroup);
  if (!group) return;
  CgroupLimits limits = limits_of_all(message);
  if (message.claimed.memory_bytes > 0)
    limits.memory_bytes = message.claimed.memory_bytes + kSupervisorMemory;
  group->set_limits(limits);
}

SpawnRequest supervisor_command(const SpawnSupervisor& action, const SupervisorFiles& files,
                                const std::string& data_dir, int link_fd, int socket_fd,
                                const std::optional<UserAccount>& account) {
  SpawnRequest request;
  request.argv = supervise_command({.run_id = action.key.run_id,
                                    .attempt = action.key.attempt,
                                    .link_fd = link_fd,
                                    .socket_fd = socket_fd,
                                    .spool_dir = files.spool,
                                    .data_dir = data_dir,
                                    .cgroup_name = account ? "workers" : files.cgroup,
                                    .account = account,
                                    .orphan_timeout_ms = action.orphan_timeout_ms});
  request.env = environment_for(account);
  request.inherit_fds = {link_fd, socket_fd};
  request.stderr_fd = STDERR_FILENO;
  request.die_with_parent = false;  // it outlives us
  request.rules.ignored_signals.assign(kSupervisorIgnores.begin(), kSupervisorIgnores.end());
  if (account) request.cgroup = cgroup_for(files, *account, action.message);
  return request;
}

}  // namespace train
