// Copies (shared by reference where the file system can) or moves the files of a checkpoint into
// the folder that the supervisor takes over. Blocking; any thread. Hidden files are left out; links
// and devices are refused (lib/storage/FORMAT.md).
#pragma once

#include <cstdint>
#include <filesystem>

#include "lib/base/result.h"

namespace train::sdk {

/// Copy the files under `from` into the new folder `to`. When it fails, `to` is removed again.
Result<Unit> copy_tree(const std::filesystem::path& from, const std::filesystem::path& to);
/// Move the folder `from` to the new name `to`; copy and remove it where a move cannot work
/// (another file system). Refuses a committed checkpoint, as rename_tree does.
Result<Unit> move_tree(const std::filesystem::path& from, const std::filesystem::path& to);
/// Move the folder `from` to the new name `to`, or leave it as it was: nothing is copied.
Result<Unit> rename_tree(const std::filesystem::path& from, const std::filesystem::path& to);
/// Make an empty folder at `to`, and the folders above it where missing. Remove what an earlier
/// attempt left at `to`.
Result<Unit> make_empty_folder(const std::filesystem::path& to);
/// Remove what a failed writer left, as far as that works: the owner of the folder above removes
/// the rest.
void remove_folder(const std::filesystem::path& folder);

/// Return the bytes of all files under `folder`, as far as they can be read.
std::uint64_t bytes_below(const std::filesystem::path& folder);
/// Return NoSpace when nothing of any size fits there any more. Checks by writing, because only
/// that reveals a quota.
Result<Unit> check_free_space(const std::filesystem::path& folder);
/// Add to an error for lack of space how much is left in the folder that `staged` is in, and what
/// to do.
Error with_free_space(Error error, const std::filesystem::path& staged);

}  // namespace train::sdk
