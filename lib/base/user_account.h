// Accounts of this machine, and whose rights a thread's file accesses use: traind of root touches
// the files of the users that it runs workers as with their rights only, so that no link or
// permission of theirs leads it anywhere that they could not go themselves.
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

/// By its name or number, from /etc/passwd, LDAP and what else this machine asks. NotFound. Blocks.
Result<UserAccount> find_account(const std::string& name);
Result<UserAccount> find_account(uid_t uid);

/// Whether this process may be another user: as root, where no sandbox has taken that from it.
bool may_become_others();

/// This process, which has one thread, is that user's for good: no way back, no capability, none of
/// root's keyring, killed for want of memory like others. Where that fails, it ends.
void become(const UserAccount& account);

/// Of this process and what it executes: 0, or errno. Safe between fork and exec. Where no
/// privileges may be gained, execve() does not give capabilities back to root either. The bounding
/// set may only be emptied by who has CAP_SETPCAP; without that it changes nothing.
int drop_capabilities();

/// Whose rights this thread's file accesses use: the effective user id, or that of the innermost
/// ActAs (setfsuid(2)).
uid_t file_user();

/// While it lives, this thread, and no other, uses files with the rights of an account: its user
/// id, its groups, and no capability that concerns files. Nobody: with its own. Needs
/// may_become_others(), else the process ends. May not live across a co_await.
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
