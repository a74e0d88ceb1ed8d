// Copies (by reference, if the file system supports that) or moves the files of a checkpoint into
// the folder that the supervisor takes over. Blocking; any thread. Hidden files are left out; links
// and devices are refused (lib/storage/FORMAT.md).
#pragma once

#include <cstdint>
#include <filesystem>

#include "lib/base/result.h"

namespace train::sdk {

/// Copy the files under `from` into the new folder `to`. On failure, remove `to` again.
Result<Unit> copy_tree(const std::filesystem::path& from, const std::filesystem::path& to);
/// Rename the folder `from` to `to`. Where a rename cannot work (on another file system), copy the
/// folder and remove it; if the removal fails, only warn on stderr. Refuses a committed checkpoint,
/// as rename_tree does.
Result<Unit> move_tree(const std::filesystem::path& from, const std::filesystem::path& to);
/// Rename the folder `from` to `to`, without ever copying. On failure, leave it as it was.
Result<Unit> rename_tree(const std::filesystem::path& from, const std::filesystem::path& to);
/// Make an empty folder at `to`, and the folders above it where missing. Remove what an earlier
/// attempt left at `to`.
Result<Unit> make_empty_folder(const std::filesystem::path& to);
/// Remove what a failed writer left, as far as possible: the owner of the folder above removes the
/// rest.
void remove_folder(const std::filesystem::path& folder);

/// Return the total size of the files under `folder`, as far as they can be read.
std::uint64_t bytes_below(const std::filesystem::path& folder);
/// Return NoSpace when not even a small file fits there any more. Checks this by writing one,
/// because only that reveals a quota.
Result<Unit> check_free_space(const std::filesystem::path& folder);
/// Add to an error for lack of space how much is free in the folder that contains `staged`, and
/// what to do.
Error with_free_space(Error error, const std::filesystem::path& staged);

}  // namespace train::sdk
