// Files of an attempt that are made again and again, of which the newest are kept: their names
// begin with when they were made.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "lib/storage/file_system.h"

namespace train {

/// Return "20261126-101500.123", which sorts by time.
std::string dated_name(std::chrono::system_clock::time_point wall);

/// Remove the oldest files in a folder so that the newest `kept` of each ending are left. Only
/// files with such names, "20261126-101500.123-hung.txt", are ours to remove.
void keep_newest(FileSystem& files, const std::string& folder,
                 const std::vector<std::string>& endings, std::size_t kept);

}  // namespace train
