// This file finds the name of this machine and the home folder of its user.
#pragma once

#include <string>

namespace train {

/// Return the name from gethostname(2), or "localhost" if that fails.
std::string host_name();

/// Return $HOME, else this user's home folder from the system's user database, else /nonexistent
/// (instead of a folder such as /tmp, which others may write).
std::string home_folder();

}  // namespace train
