// This file looks up accounts of this machine, and sets whose rights a thread's file accesses use.
// A traind that runs as root uses the files of --run-as's users with those users' rights only, so
// that no link or permission of theirs leads it anywhere that they could not go themselves.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "lib/base/result.h"

namespace train {

struct UserAccount {
  std::string name;
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // gid among them
  std::string home, shell;
};

/// Look an account up by name or number, in /etc/passwd, LDAP or whatever this machine uses.
/// NotFound. Blocks.
Result<UserAccount> find_account(const std::string& name);
Result<UserAccount> find_account(uid_t uid);

/// Return whether this thread has a capability in effect, for example CAP_SETUID
/// (linux/capability.h).
bool has_capability(int capability);

/// Return whether this process may become another user: it is root, and no sandbox has taken that
/// right.
bool may_become_others();

/// Turn this process, which must have one thread, into that user's for good: no way back, no
/// capability, a session keyring of its own, no protection from the OOM killer. Ends the process if
/// that fails.
void become(const UserAccount& account);

/// Drop all capabilities of this process and of what it executes. Return 0, or errno. Safe between
/// fork and exec. Where no privileges may be gained, execve() does not give capabilities back to
/// root either. Only a process with CAP_SETPCAP can empty the bounding set; without it, the set
/// stays as it was.
int drop_capabilities();

/// Return whose rights this thread's file accesses use: the effective user id, or that of the
/// innermost ActAs (setfsuid(2)).
uid_t file_user();

/// While an ActAs lives, this thread alone uses files with the rights of an account: its user id,
/// its groups, and no capability that concerns files. Without an account, the thread uses its own
/// rights. Needs may_become_others(), else the process ends. Must not live across a co_await.
class ActAs {
 public:
  explicit ActAs(const std::optional<UserAccount>& account);
  ~ActAs();
  ActAs(const ActAs&) = delete;
  ActAs& operator=(const ActAs&) = delete;

 private:
  struct Rights {
    uid_t uid = 0;
    gid_t gid = 0;
    std::vector<gid_t> groups;
  };
  static void take(const Rights& rights);
  std::optional<Rights> before_;
};

}  // namespace train
