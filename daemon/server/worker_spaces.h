// The users that workers may run as, and what lies on this node for the runs of each: traind's own
// user, those that --run-as names, and those that an earlier traind ran workers as.
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

/// Of one user.
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
  struct Places {
    std::string spool_dir, data_dir;
  };

  /// Nobody but our own user until open(). `executor` must outlive it.
  WorkerSpaces(boost::asio::any_io_executor executor, Places places, NodeData::Say say);

  /// Look up the users that --run-as names, and make their folders. From here on a user has the
  /// name in its account: some machines know one account by several names. Permission where we
  /// cannot become one of them, or it is root and `may_be_root` is not set.
  Result<Unit> open(const std::vector<std::string>& run_as, bool may_be_root);
  /// Why workers are not run as root.
  static Error root_refused();

  const WorkerUsers& users() const { return users_; }
  /// Of a user of users().
  uid_t uid_of(const std::string& user) const;
  WorkerSpace& of_user(const std::string& user) { return of(uid_of(user)); }
  /// Of any user: perhaps one that --run-as no longer names, whose files an earlier traind left.
  WorkerSpace& of(uid_t uid);
  /// Remove what nobody has come back to, of users but those of `living`.
  void sweep_old(const std::set<uid_t>& living);
  /// Remove what ended runs have left, but those of `living`.
  void sweep(const std::set<std::string>& living);

 private:
  WorkerSpace& add(const UserAccount& user);

  boost::asio::any_io_executor executor_;
  Places places_;
  NodeData::Say say_;
  WorkerUsers users_;
  std::map<std::string, uid_t> uids_;  // of those users, by name
  std::map<uid_t, std::unique_ptr<WorkerSpace>> spaces_;
};

}  // namespace train
