// Folders of our own, which carry a file that marks them as made by us. A whole folder may be
// removed long after it was made, perhaps by another process and by its path alone. It is removed
// only if the mark is there, so nothing that we did not make is ever removed. The folders must
// belong to file_user(). Calls block.
#pragma once

#include <string>

#include "lib/base/result.h"

namespace train {

/// The mark: a regular file of this user's in the folder, which no other user may write.
inline constexpr std::string_view kOwnFolderMarker = ".made-by-trainrun";

/// Make a marked folder of mode 0700, whole or not at all; its parent must exist. AlreadyExists if
/// anything has that name.
Result<Unit> make_own_folder(const std::string& path);

/// Check that `path` is a folder (and no link) of this user's in which no other user may write.
/// NotFound if nothing is there, else Permission, and what is wrong with it.
Result<Unit> check_private_folder(const std::string& path);
/// Do the same as check_private_folder(), but make the folder (mode 0700, not marked) if nothing is
/// there.
Result<Unit> make_private_folder(const std::string& path);

/// Do the same as check_private_folder(), and check that the folder carries the mark.
Result<Unit> check_own_folder(const std::string& path);
/// Remove a marked folder and all that is in it. Links in it are removed and not followed; other
/// file systems below it are left alone (Io). The mark goes last, so that a later call can finish
/// what this one began. Return false if nothing is there. Permission, and nothing is removed, if it
/// is not a marked folder of ours.
Result<bool> remove_own_folder(const std::string& path);

/// Remove a folder that the caller knows by its name to be its own, with all that is in it, however
/// deep. Links are removed and not followed; a `path` that is a link itself is refused
/// (Permission). The root of the file system and a home folder are refused, whoever asks. It is no
/// error if nothing is there.
Result<Unit> remove_folder_tree(const std::string& path);

}  // namespace train
