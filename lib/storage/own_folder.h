// Folders of our own, which contain a file that marks them as ours. A whole folder may be removed
// long after it was made, perhaps by another process that only knows its path. It is removed only
// if it has the mark, so we never remove anything that we did not make. The folders must belong to
// file_user(). Calls block.
#pragma once

#include <string>

#include "lib/base/result.h"

namespace train {

/// The mark: a regular file of this user's in the folder, which no other user may write.
inline constexpr std::string_view kOwnFolderMarker = ".made-by-trainrun";

/// Make a marked folder of mode 0700, completely or not at all; its parent must exist.
/// AlreadyExists if the name is taken.
Result<Unit> make_own_folder(const std::string& path);

/// Check that `path` is a folder (not a link) of this user in which no other user may write.
/// NotFound if it does not exist, else Permission, with what is wrong.
Result<Unit> check_private_folder(const std::string& path);
/// Do the same as check_private_folder(), but create the folder (mode 0700, not marked) if it does
/// not exist.
Result<Unit> make_private_folder(const std::string& path);

/// Do the same as check_private_folder(), and check that the folder has the mark.
Result<Unit> check_own_folder(const std::string& path);
/// Remove a marked folder and everything in it. Links in it are removed and not followed; other
/// file systems below it are left alone (Io). The mark is removed last, so that a later call can
/// finish what this one began. Return false if the folder does not exist. Permission, and nothing
/// is removed, if it is not a marked folder of ours.
Result<bool> remove_own_folder(const std::string& path);

/// Remove a folder that must be the caller's own, judging by its name, with everything in it,
/// however deep. Links are removed and not followed; Permission if `path` itself is a link, the
/// root of the file system or a home folder. A missing folder is no error.
Result<Unit> remove_folder_tree(const std::string& path);

}  // namespace train
