// This file looks up accounts of this machine, and sets whose rights a thread uses to access files.
// A traind that runs as root accesses the files of --run-as users only with those users' rights, so
// that no link or permission that a user sets can lead traind where that user may not go.
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
  std::vector<gid_t> groups;  // including gid
  std::string home, shell;
};

/// Look up an account by name or number in /etc/passwd, LDAP or whatever this machine uses.
/// NotFound if there is none. Blocks.
Result<UserAccount> find_account(const std::string& name);
Result<UserAccount> find_account(uid_t uid);

/// Return whether a capability, such as CAP_SETUID (linux/capability.h), is in effect for this
/// thread.
bool has_capability(int capability);

/// Return whether this process may become another user: it is root, and no sandbox has removed that
/// right.
bool may_become_others();

/// Take an account's rights and no capabilities for this process, which must have only one thread,
/// as it is between fork and exec, where this is safe. Return 0, or errno.
int take_rights(const UserAccount& account);

/// Make this process, which must have only one thread, permanently run as that user, without
/// capabilities, with its own session keyring and no protection from the OOM killer. Ends the
/// process if that fails.
void become(const UserAccount& account);

/// Drop all capabilities of this process and of programs that it executes. Return 0, or errno. Safe
/// between fork and exec. With PR_SET_NO_NEW_PRIVS, execve() does not return capabilities to root
/// either. Only a process with CAP_SETPCAP can empty the bounding set; for others the set stays as
/// it was.
int drop_capabilities();

/// Return the user whose rights this thread uses to access files: the effective user, or that of
/// the innermost ActAs (setfsuid(2)).
uid_t file_user();

/// While an ActAs lives, this thread (and no other) accesses files with the rights of an account:
/// its user id, its groups, and no capability that concerns files. Without an account, the thread
/// keeps its own rights. Ends the process unless may_become_others(). Must not live across a
/// co_await.
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
