#include "daemon/server/worker_spaces.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "daemon/server/daemon_folders.h"
#include "daemon/server/supervisor_files.h"
#include "lib/base/check.h"

namespace train {

WorkerSpaces::WorkerSpaces(boost::asio::any_io_executor executor, Folders folders,
                           NodeData::Say say)
    : executor_(std::move(executor)), folders_(std::move(folders)), say_(std::move(say)) {
  const uid_t own = ::geteuid();
  const auto self = find_account(own);
  users_.own = self ? self->name : fmt::format("uid {}", own);
  uids_[users_.own] = own;
  spaces_[own] =
      std::make_unique<WorkerSpace>(own, std::nullopt, executor_, folders_.data_dir, say_);
}

Result<Unit> WorkerSpaces::open(const std::vector<std::string>& run_as, bool may_be_root) {
  const uid_t own = ::geteuid();
  bool as_itself = run_as.empty();
  for (const std::string& name : run_as) {
    TRY(const UserAccount user, find_account(name));
    auto& allowed = users_.allowed;
    if (std::find(allowed.begin(), allowed.end(), user.name) != allowed.end()) continue;
    allowed.push_back(user.name);
    uids_[user.name] = user.uid;
    if (user.uid == own) {  // perhaps by another name: root may have several
      as_itself = true;
      continue;
    }
    if (!may_become_others())
      return Error{Errc::Permission,
                   fmt::format("{} cannot run workers as {}", users_.own, user.name),
                   "start traind as root, with CAP_SETUID and CAP_SETGID, or as that user"};
    TRY_VOID(make_user_folder(folders_.spool_dir, user));
    TRY_VOID(make_user_folder(folders_.data_dir, user));
    add(user);
  }
  if (own == 0 && as_itself && !may_be_root) return root_refused();
  return Unit{};
}

Error WorkerSpaces::root_refused() {
  return {Errc::Permission, "refusing to run workers as root",
          "name the users whose jobs it runs with --run-as, start traind as the user whose jobs it "
          "runs, or give --allow-root"};
}

Result<UserAccount> WorkerSpaces::account_of(uid_t uid) const {
  const bool allowed = std::any_of(users_.allowed.begin(), users_.allowed.end(),
                                   [&](const std::string& name) { return uid_of(name) == uid; });
  if (allowed && may_become_others()) return find_account(uid);
  return Error{Errc::Permission, fmt::format("--run-as does not name the user with uid {}", uid)};
}

uid_t WorkerSpaces::uid_of(const std::string& user) const {
  const auto uid = uids_.find(user);
  TRAIN_CHECK(uid != uids_.end(), "a run has a user that --run-as does not name");
  return uid->second;
}

WorkerSpace& WorkerSpaces::of(uid_t uid) {
  constexpr gid_t kNoGroup = 65534;
  if (const auto known = spaces_.find(uid); known != spaces_.end()) return *known->second;
  return add({fmt::format("uid {}", uid), uid, kNoGroup, {kNoGroup}, "/nonexistent", ""});
}

WorkerSpace& WorkerSpaces::add(const UserAccount& user) {
  auto& space = spaces_[user.uid];
  if (!space)
    space = std::make_unique<WorkerSpace>(user.uid, user, executor_,
                                          user_folder(folders_.data_dir, user.uid), say_);
  return *space;
}

void WorkerSpaces::remove_old_leftovers(const std::set<uid_t>& living) {
  for (auto& [uid, space] : spaces_) {
    if (!living.contains(uid)) space->data.remove_old_leftovers();
  }
}

void WorkerSpaces::remove_leftovers(const std::set<std::string>& living) {
  for (auto& [uid, space] : spaces_) space->data.remove_leftovers(living);
}

}  // namespace train
