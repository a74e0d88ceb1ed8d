#include "daemon/core/private_traind.h"

namespace train {

bool waited_for_launchers(TimePoint started, bool had_launcher, TimePoint now) {
  return had_launcher || now >= started + kFirstLauncherLimit;
}

TimePoint look_again_at(TimePoint started, bool had_launcher, TimePoint now) {
  return waited_for_launchers(started, had_launcher, now) ? TimePoint::max()
                                                          : started + kFirstLauncherLimit;
}

}  // namespace train
