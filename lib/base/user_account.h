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

/// Whose rights this thread's file accesses use: the effective user id, or that of the innermost
/// ActAs (setfsuid(2)).
uid_t file_user();

/// While it lives, this thread, and no other, uses files with the rights of an account: its user
/// id, its groups, no capability. Nobody: with its own. Only root can be somebody else; a process
/// that fails in it ends. May not live across a co_await.
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
