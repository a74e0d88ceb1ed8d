#include "lib/storage/staged_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/storage/manifest.h"

namespace train {
namespace {

Result<Unit> collect(FileSystem& fs, const std::string& root, const std::string& below,
                     std::vector<StagedFile>& files) {
  const std::string folder = below.empty() ? root : join_path(root, below);
  TRY(const auto entries, fs.list(folder));
  for (const FolderEntry& entry : entries) {
    if (entry.name.starts_with('.')) continue;
    const std::string path = join_path(below, entry.name);
    TRY_VOID(check_file_path(path));
    if (entry.kind == FileKind::Folder) {
      TRY_VOID(collect(fs, root, path, files));
    } else if (entry.kind == FileKind::File) {
      TRY(const FileStatus status, fs.status(join_path(root, path)));
      files.push_back({path, status.bytes});
    } else {
      return Error{
          Errc::InvalidArgument,
          fmt::format("'{}' in '{}' is neither a file nor a folder", escape_name(path), root),
          "a checkpoint holds files and folders only: write a copy instead of a link"};
    }
  }
  return Unit{};
}

}  // namespace

Result<std::vector<StagedFile>> staged_files(FileSystem& fs, const std::string& folder) {
  std::vector<StagedFile> files;
  TRY_VOID(collect(fs, folder, "", files));
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

}  // namespace train
