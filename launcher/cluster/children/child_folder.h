// What a train-run that starts others finds in their folders, and how it is asked to stop them.
// Calls block.
#pragma once

#include <string>

#include "launcher/core/search/sweep_records.h"
#include "lib/storage/file_system.h"
#include "lib/storage/run_folder.h"
#include "lib/storage/run_lock.h"

namespace train {

/// Return what a train-run has left of a child run; it may have died anywhere.
ChildFolder look_into_child(FileSystem& files, const RunFolder& run);

/// Return the text of a request to stop all child runs that is for this owner of them: one that was
/// for an earlier owner, which has died, stops no later one.
std::string stop_text(const LockHolder& owner);

}  // namespace train
