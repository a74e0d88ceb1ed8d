// Knows the users that workers may run as, and what lies on this node for the runs of each. The
// users are traind's own, those that --run-as names, and those that an earlier traind ran workers
// as.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/worker_user.h"
#include "daemon/server/node_data.h"
#include "lib/base/user_account.h"

namespace train {

/// What lies on this node for the runs of one user.
struct WorkerSpace {
  WorkerSpace(uid_t id, std::optional<UserAccount> of, const boost::asio::any_io_executor& executor,
              std::string folder, NodeData::Say say)
      : uid(id),
        account(std::move(of)),
        data(executor, std::move(folder), account, std::move(say)) {}
  uid_t uid;
  std::optional<UserAccount> account;  // none: ours
  NodeData data;
};

class WorkerSpaces {
 public:
  struct Folders {
    std::string spool_dir, data_dir;
  };

  /// Know only our own user until open(). `executor` must outlive this object.
  WorkerSpaces(boost::asio::any_io_executor executor, Folders folders, NodeData::Say say);

  /// Look up the users that --run-as names, and make their folders. From here on a user goes by the
  /// name in its account, because some machines know one account by several names. Errors:
  /// Permission, if we cannot become one of them, or if one is root and `may_be_root` is not set.
  Result<Unit> open(const std::vector<std::string>& run_as, bool may_be_root);
  /// Return the error that says why workers are not run as root.
  static Error root_refused();

  const WorkerUsers& users() const { return users_; }
  /// Return the account of another user whom --run-as names. Permission: it names none with this
  /// uid.
  Result<UserAccount> account_of(uid_t uid) const;
  /// Return the uid of a user in users().
  uid_t uid_of(const std::string& user) const;
  WorkerSpace& of_user(const std::string& user) { return of(uid_of(user)); }
  /// Return the space of any user, even one that --run-as no longer names and whose files an
  /// earlier traind left.
  WorkerSpace& of(uid_t uid);
  /// Remove what has not been used for a week, except for the users in `living`.
  void remove_old_leftovers(const std::set<uid_t>& living);
  /// Remove what ended runs have left, except for the runs in `living`.
  void remove_leftovers(const std::set<std::string>& living);

 private:
  WorkerSpace& add(const UserAccount& user);

  boost::asio::any_io_executor executor_;
  Folders folders_;
  NodeData::Say say_;
  WorkerUsers users_;
  std::map<std::string, uid_t> uids_;  // of those users, by name
  std::map<uid_t, std::unique_ptr<WorkerSpace>> spaces_;
};

}  // namespace train
