// Folders of our own: made by us, and marked with a file that says so. What is removed as a whole,
// long after it was made, perhaps by another process and by its path alone, is removed only where
// that mark is: nothing that we did not make ever goes. They must belong to file_user(). Blocks.
#pragma once

#include <string>

#include "lib/base/result.h"

namespace train {

/// The mark: a regular file of this user's in the folder, which no other user may write.
inline constexpr std::string_view kOwnFolderMark = ".made-by-trainrun";

/// Make a marked folder of mode 0700, whole or not at all; its parent must be there. AlreadyExists
/// where that name is taken, by whatever it is.
Result<Unit> make_own_folder(const std::string& path);

/// Whether `path` is a folder (and no link) of this user's in which no other may write. NotFound
/// where nothing is there, else Permission, and what is wrong with it.
Result<Unit> check_private_folder(const std::string& path);
/// The same, and it is made (mode 0700, not marked) where nothing is there.
Result<Unit> make_private_folder(const std::string& path);

/// check_private_folder(), and it carries the mark.
Result<Unit> check_own_folder(const std::string& path);
/// Remove a marked folder and all that is in it. Links in it are removed and not followed, other
/// file systems below it are left alone (Io). The mark goes last, so that what was begun can be
/// ended later. False where nothing is there; Permission, and nothing is removed, where it is not a
/// marked folder of ours.
Result<bool> remove_own_folder(const std::string& path);

/// Remove a folder that the caller knows to be its own by the name, with all that is in it, however
/// deep. Links are removed and not followed, `path` itself included (Permission). Refused, whoever
/// asks: the root of the file system, and a home folder. No error where nothing is there.
Result<Unit> remove_folder_tree(const std::string& path);

}  // namespace train
