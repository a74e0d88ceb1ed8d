// Lets systemd start traind again while workers live. Up to version 253, systemd puts the main
// process of a service into the service's own group. In cgroup v2 this fails as long as that group
// hands controllers on, which it does for the limits of the workers. So `traind cgroup release`,
// which the service runs once traind has ended, takes the controllers off; the next traind hands
// them on again, and the supervisors renew the limits. From version 254 on, systemd puts traind
// into the group "daemon" below (DelegateSubgroup=), and there is nothing to release.
#pragma once

#include <string>

#include "daemon/supervisor/limits/cgroup_locations.h"
#include "lib/base/result.h"

namespace train {

/// Note in the runtime folder which group traind had to leave; "": none, which removes the note.
Result<Unit> note_own_cgroup(const std::string& runtime_dir, const std::string& group);

/// Take the controllers off the noted group and the groups below it, if we are in it or in its
/// group of control processes. Return false if there is nothing to do. `locations`: our own.
Result<bool> release_cgroup(const std::string& runtime_dir, const CgroupLocations& locations);

}  // namespace train
