// Disk quotas: a write that is over one fails for want of space, while the disk has room.
#pragma once

#include <string_view>

namespace train {

/// What to do about it. How much is free there says nothing then.
inline constexpr std::string_view kOverQuotaHint =
    "remove files of yours there, or ask for a larger quota; `quota -s` shows it";
/// Whether a text, of whatever origin, is about a quota that is used up.
bool says_over_quota(std::string_view text);

}  // namespace train
