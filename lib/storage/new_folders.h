// The folders of a tree that is being written. They are made when files need them, and synced after
// all files are written.
#pragma once

#include <set>
#include <string>

#include "lib/storage/file_system.h"

namespace train {

class NewFolders {
 public:
  /// Manage folders below `root`, which exists.
  NewFolders(FileSystem& fs, std::string root) : fs_(fs), root_(std::move(root)) {}

  /// Make the folders that lead to the file `path`, relative to the root.
  Result<Unit> make_for(const std::string& path) {
    for (auto slash = path.find('/'); slash != std::string::npos;
         slash = path.find('/', slash + 1)) {
      const std::string folder = path.substr(0, slash);
      if (made_.insert(folder).second) TRY_VOID(fs_.make_folder(join_path(root_, folder)));
    }
    return Unit{};
  }

  /// Sync the innermost folders first and the root last: a folder must be on disk before its name
  /// in the parent.
  Result<Unit> sync() {
    for (auto folder = made_.rbegin(); folder != made_.rend(); ++folder)
      TRY_VOID(fs_.sync_folder(join_path(root_, *folder)));
    return fs_.sync_folder(root_);
  }

 private:
  FileSystem& fs_;
  const std::string root_;
  std::set<std::string> made_;  // longer paths sort after their parents
};

}  // namespace train
