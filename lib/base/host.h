// What this machine is called, and where its user lives.
#pragma once

#include <string>

namespace train {

/// As gethostname(2) says; "localhost" where it says nothing.
std::string host_name();

/// $HOME, or what the system knows of this user; /nonexistent where neither says anything: never a
/// folder that others may write.
std::string home_folder();

}  // namespace train
