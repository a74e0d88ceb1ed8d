// Decides how long a traind that was started for one user's runs waits for them. Pure.
#pragma once

#include "lib/base/time.h"

namespace train {

/// After this, a private traind without a launcher exits, if nothing else is left.
inline constexpr Duration kFirstLauncherLimit = seconds(30);

/// Return whether a private traind without launchers has waited long enough for one.
bool waited_for_launchers(TimePoint started, bool had_launcher, TimePoint now);
/// Return when time alone may change that, or TimePoint::max() for never.
TimePoint look_again_at(TimePoint started, bool had_launcher, TimePoint now);

}  // namespace train
