#include "daemon/core/worker_user.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace train {
namespace {

Error refusal(const std::string& user, std::string hint) {
  return {Errc::Permission, fmt::format("this node does not run workers as {} for this run", user),
          std::move(hint)};
}

}  // namespace

Result<std::string> worker_user(const WorkerUsers& users, const std::string& asked,
                                const std::optional<std::string>& certificate) {
  const auto& allowed = users.allowed;
  if (allowed.empty()) {
    if (asked.empty() || asked == users.own) return users.own;
    return refusal(asked, fmt::format("its traind runs workers as {}: leave run_config.user "
                                      "out, or start traind as root with --run-as {}",
                                      users.own, asked));
  }
  if (allowed.size() == 1 || !certificate) {
    const std::string& user = asked.empty() ? allowed.front() : asked;
    if (std::find(allowed.begin(), allowed.end(), user) != allowed.end()) return user;
    return refusal(
        user, fmt::format("set run_config.user to a user that its traind allows: {} (--run-as)",
                          fmt::join(allowed, ", ")));
  }
  if (!asked.empty() && asked != *certificate)
    return refusal(asked, fmt::format("the launcher's certificate is {}'s: leave "
                                      "run_config.user out, or use {}'s certificate",
                                      *certificate, asked));
  if (std::find(allowed.begin(), allowed.end(), *certificate) != allowed.end()) return *certificate;
  return refusal(*certificate, fmt::format("ask the administrator of its traind to add --run-as {}",
                                           *certificate));
}

}  // namespace train
