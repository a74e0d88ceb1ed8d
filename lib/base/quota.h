// Disk quotas: a write that exceeds one fails for lack of space although the disk has room.
#pragma once

#include <string_view>

namespace train {

/// The advice for the user. The free space of the disk says nothing in this case.
inline constexpr std::string_view kOverQuotaHint =
    "remove files of yours there, or ask for a larger quota; `quota -s` shows it";
/// Return whether a text, of any origin, says that a quota is used up.
bool says_over_quota(std::string_view text);

}  // namespace train
