#include "lib/storage/file_system.h"

#include <fmt/format.h>

#include <algorithm>

namespace train {

std::string join_path(std::string_view folder, std::string_view name) {
  if (folder.empty()) return std::string(name);
  return folder.back() == '/' ? fmt::format("{}{}", folder, name)
                              : fmt::format("{}/{}", folder, name);
}

std::string parent_path(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const auto slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return std::string(slash == 0 ? "/" : path.substr(0, slash));
}

Result<std::string> read_small_file(FileSystem& fs, const std::string& path,
                                    std::uint64_t bytes_max) {
  TRY(auto file, fs.open_to_read(path));
  std::string text;
  for (std::size_t step = 4 << 10;; step = std::min<std::size_t>(2 * step, 1 << 20)) {
    const std::size_t had = text.size();
    text.resize(had + step);
    TRY(const std::size_t got, file->read(text.data() + had, step));
    text.resize(had + got);
    if (text.size() > bytes_max)
      return Error{Errc::ResourceExhausted,
                   fmt::format("'{}' is larger than {} bytes", path, bytes_max)};
    if (got == 0) return text;
  }
}

Result<Unit> write_small_file(FileSystem& fs, const std::string& path, std::string_view text) {
  const std::string folder = parent_path(path);
  const std::string name = path.substr(path.rfind('/') + 1);
  const std::string temporary = join_path(folder, fmt::format(".{}.tmp", name));
  // A killed writer may have left this file, which never got the final name.
  if (auto removed = fs.remove_file(temporary);
      removed.has_error() && removed.error().code != Errc::NotFound)
    return removed.error();
  {
    TRY(auto file, fs.create(temporary));
    TRY_VOID(file->write(text));
    TRY_VOID(file->sync());
  }
  TRY_VOID(fs.rename(temporary, path));
  return fs.sync_folder(folder);
}

Result<Unit> make_folders(FileSystem& fs, const std::string& path) {
  if (auto status = fs.status(path); !status.has_error()) {
    // FileKind::Other may be a link to a folder, which sync_folder() accepts.
    if (status->kind == FileKind::Folder || !fs.sync_folder(path).has_error()) return Unit{};
    return Error{Errc::AlreadyExists, fmt::format("'{}' is not a folder", path)};
  }
  const std::string parent = parent_path(path);
  if (parent != path) TRY_VOID(make_folders(fs, parent));
  if (auto made = fs.make_folder(path);
      made.has_error() && made.error().code != Errc::AlreadyExists)
    return made.error();  // AlreadyExists: another process has just made it
  return fs.sync_folder(parent);
}

Result<Unit> FileSystem::remove_all(const std::string& path) {
  auto entries = list(path);
  if (entries.has_error()) {
    if (entries.error().code == Errc::NotFound) return Unit{};
    return entries.error();
  }
  for (const FolderEntry& entry : *entries) {
    const std::string inner = join_path(path, entry.name);
    TRY_VOID(entry.kind == FileKind::Folder ? remove_all(inner) : remove_file(inner));
  }
  return remove_folder(path);
}

Result<Unit> remove_tree(FileSystem& fs, const std::string& path) { return fs.remove_all(path); }

}  // namespace train
