// Files of a checkpoint on their way into the folder that the supervisor takes over: copied (shared
// by reference where the file system can) or moved. Blocking; any thread. Hidden files are left
// out, links and devices refused (lib/storage/FORMAT.md).
#pragma once

#include <cstdint>
#include <filesystem>

#include "lib/base/result.h"

namespace train::sdk {

/// Copy the files under `from` into the new folder `to`. When it fails, `to` is removed again.
Result<Unit> copy_tree(const std::filesystem::path& from, const std::filesystem::path& to);
/// Move the folder `from` to the new name `to`; copy and remove it where a move cannot work
/// (another file system). Refused, as by rename_tree: a committed checkpoint.
Result<Unit> move_tree(const std::filesystem::path& from, const std::filesystem::path& to);
/// Move the folder `from` to the new name `to`, or leave it as it was: nothing is copied.
Result<Unit> rename_tree(const std::filesystem::path& from, const std::filesystem::path& to);
/// Make an empty folder at `to`, and those above it where missing; what an earlier attempt left at
/// `to` goes.
Result<Unit> make_empty_folder(const std::filesystem::path& to);
/// Remove what a failed writer left, as far as that works: whoever owns the folder above removes
/// the rest.
void remove_folder(const std::filesystem::path& folder);

/// Of all files under `folder`, as far as they can be read.
std::uint64_t bytes_below(const std::filesystem::path& folder);
/// NoSpace where nothing of any size fits there any more. By writing: of a quota, only that tells.
Result<Unit> check_room(const std::filesystem::path& folder);
/// An error for want of space, with what is left in the folder that `staged` is in, and what to do.
Error with_free_space(Error error, const std::filesystem::path& staged);

}  // namespace train::sdk
