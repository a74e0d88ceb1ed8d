// Where the folders of a traind that serves only its launcher's runs lie: a short one for sockets,
// and a spool, which may be large. Both end with a name that nobody can guess. Calls block.
#pragma once

#include <string>
#include <vector>

#include "lib/base/result.h"

namespace train {

/// Return whether nobody else can replace what we make in the folder: it belongs to us or to root,
/// and if others may write to it, it is sticky. The system's own folders are safe, even if a user
/// namespace hides their owner.
bool is_safe_root(const std::string& path);

/// Return $XDG_RUNTIME_DIR if it is fit, else /tmp.
std::string runtime_root();
/// Return the folders for a spool, best first: $TMPDIR, /var/tmp, /tmp. A spool holds worker output
/// and checkpoints in transit, which may be large, and the runtime folder is often in memory. A
/// batch system may have set a TMPDIR that is not on this machine.
std::vector<std::string> spool_roots();

/// Return the name of a runtime folder, "trainrun-0-5118976aab", for five random bytes.
std::string runtime_name(const std::string& random);
/// Return "trainrun_0-5118976aab" for "/tmp/trainrun-0-5118976aab", because both may lie in one
/// folder. The name is no longer than the other one, since a socket's path has no byte to spare.
std::string spool_name(const std::string& runtime_dir);

/// Return whether sockets can be made in the folder. Not every file system that a TMPDIR names
/// supports them.
bool holds_sockets(const std::string& folder);

struct PrivateFolders {
  std::string runtime, spool;
};
/// Make both, with names for five random bytes. remove_own_folder() removes each.
Result<PrivateFolders> make_private_folders(const std::string& random);

}  // namespace train
