// What this machine is called.
#pragma once

#include <string>

namespace train {

/// As gethostname(2) says; "localhost" where it says nothing.
std::string host_name();

}  // namespace train
