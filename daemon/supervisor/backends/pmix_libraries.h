// Where the libpmix of a program may be.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace train {

/// A job's own choice, in its `env:`.
inline constexpr const char* kPmixLibraryVariable = "TRAINRUN_PMIX_LIBRARY";

/// Return what to try, in this order: the one that the job's environment names, and nothing else;
/// those beside `program` (the path of the job's program, "" if it was not found), as Open MPI's
/// wheel and conda install them; the system's.
std::vector<std::string> pmix_libraries(const std::string& program,
                                        const std::map<std::string, std::string>& environment);

}  // namespace train
