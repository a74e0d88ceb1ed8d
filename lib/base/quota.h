// Disk quotas: a write beyond a quota fails for lack of space although the disk has room.
#pragma once

#include <string_view>

namespace train {

/// The advice for the user, instead of the disk's free space, which means nothing in this case.
inline constexpr std::string_view kOverQuotaHint =
    "remove files of yours there, or ask for a larger quota; `quota -s` shows it";
/// Return whether a text of any origin contains the system's message for an exceeded quota.
bool says_over_quota(std::string_view text);

}  // namespace train
