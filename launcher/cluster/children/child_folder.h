// What a train-run that starts others finds in their folders, and how it is asked to stop them.
// Calls block.
#pragma once

#include <optional>
#include <string>

#include "launcher/core/search/sweep_records.h"
#include "lib/storage/file_system.h"
#include "lib/storage/run_folder.h"
#include "lib/storage/run_lock.h"

namespace train {

/// Return what a train-run has left of a child run; it may have died anywhere.
ChildFolder look_into_child(FileSystem& files, const RunFolder& run);

/// Return the folder of the parent that a user names, by its path or by its name below
/// `storage_path`; none if that is none. `is_parent`: whether a folder is one.
std::optional<std::string> find_parent(std::string given, const std::string& storage_path,
                                       bool (*is_parent)(const std::string& path));

/// What PARENT/3 names: the parent as it is given, and the child's number.
struct ChildName {
  std::string parent;
  int number = 0;
};
/// Return none if `given` is not like that.
std::optional<ChildName> child_name(const std::string& given);

/// Return the text of a request to stop all child runs that is for this owner of them: one that was
/// for an earlier owner, which has died, stops no later one.
std::string stop_text(const LockHolder& owner);

}  // namespace train
