#include "daemon/server/launcher_admission.h"

#include <fmt/format.h>

#include <algorithm>

#include "daemon/core/worker_user.h"
#include "lib/net/run_owner.h"

namespace train {

Result<std::string> LauncherAdmission::admit(const Connection& link,
                                             const AttachRun& message) const {
  TRY_VOID(check_owner(link, message));
  TRY_VOID(check_allowed(link));
  return user_for(link, message);
}

Result<Unit> LauncherAdmission::check_owner(const Connection& link,
                                            const AttachRun& message) const {
  if (owns_run(message.run_id, message.generation, link.binding(),
               {message.owner_public_key, message.owner_signature}))
    return Unit{};
  return Error{Errc::Permission,
               fmt::format("the run {} belongs to another user", message.run_name),
               "only the owner of the run's folder can take it over"};
}

Result<Unit> LauncherAdmission::check_allowed(const Connection& link) const {
  if (allowed_.empty() || link.is_unix()) return Unit{};
  const auto user = link.certificate_name();
  if (user && std::find(allowed_.begin(), allowed_.end(), user->name) != allowed_.end())
    return Unit{};
  return Error{Errc::Permission,
               fmt::format("{} may not use this node", user ? user->name : "this user"),
               "its traind admits only the users given with --allow-launcher"};
}

Result<std::string> LauncherAdmission::user_for(const Connection& link,
                                                const AttachRun& message) const {
  const auto launcher = link.is_unix() ? std::nullopt : link.certificate_name();
  TRY(const std::string user,
      worker_user(spaces_.users(), message.user,
                  launcher ? std::optional(launcher->name) : std::optional<std::string>()));
  const auto other = supervisors_.as_another_user(message.run_id, spaces_.uid_of(user));
  if (!other) return user;
  return Error{Errc::Permission,
               fmt::format("attempt {} of this run still runs as uid {} here, not as {}",
                           other->first.value, other->second, user),
               "wait until that attempt has ended, or set run_config.user back to its user"};
}

}  // namespace train
