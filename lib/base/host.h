// This file tells the name of this machine and the home folder of its user.
#pragma once

#include <string>

namespace train {

/// Return the name that gethostname(2) gives, or "localhost" where it gives none.
std::string host_name();

/// Return $HOME, or the home folder that the system has on record for this user, or /nonexistent
/// where there is neither. Never return a folder that others may write.
std::string home_folder();

}  // namespace train
