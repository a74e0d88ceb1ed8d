#include "launcher/cluster/code/code_keeper.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "lib/base/file_descriptor.h"
#include "lib/storage/code_manifest.h"
#include "lib/storage/digest.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

constexpr std::size_t kReadBytes = 1u << 20;
constexpr std::string_view kNew = ".new-";  // and the process's id

using Stopped = std::function<bool()>;

/// Copy one file; nothing if it is no longer there.
Result<std::optional<CodeFile>> copy_file(FileSystem& files, const std::string& from,
                                          const std::string& to, const ListedFile& listed,
                                          const Stopped& stopped) {
  const std::string source = join_path(from, listed.path), target = join_path(to, listed.path);
  const FileDescriptor file(::open(source.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) {
    if (errno == ENOENT) return std::optional<CodeFile>();
    return system_error(errno, "reading " + source);
  }
  struct stat found {};
  if (::fstat(file.get(), &found) != 0) return system_error(errno, "looking at " + source);
  if (!S_ISREG(found.st_mode)) return std::optional<CodeFile>();
  TRY_VOID(make_folders(files, parent_path(target)));
  TRY(auto copy, files.create(target));
  CodeFile made;
  made.path = listed.path;
  made.executable = (found.st_mode & 0111) != 0;
  Hasher hasher;
  const auto size = static_cast<std::uint64_t>(found.st_size);  // one that grows ends here
  std::string buffer(std::clamp<std::uint64_t>(size, 1, kReadBytes), '\0');
  while (made.bytes < size) {
    if (stopped()) return Error{Errc::Cancelled, "the copy of the code is no longer needed"};
    const auto most = std::min<std::uint64_t>(buffer.size(), size - made.bytes);
    const ssize_t got = ::read(file.get(), buffer.data(), most);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error(errno, "reading " + source);
    if (got == 0) break;
    const std::string_view piece(buffer.data(), static_cast<std::size_t>(got));
    TRY_VOID(copy->write(piece));
    hasher.update(piece);
    made.bytes += piece.size();
  }
  made.digest = hasher.digest();
  return std::optional(std::move(made));
}

bool is_new(const FolderEntry& entry) { return entry.name.starts_with(kNew); }

/// Remove those folders of code that `which` chooses, as far as possible.
void remove_each(FileSystem& files, const std::string& folder,
                 const std::function<bool(const FolderEntry&)>& which) {
  const auto entries = files.list(folder);
  if (!entries) return;
  for (const FolderEntry& entry : *entries)
    if (entry.kind == FileKind::Folder && which(entry))
      (void)remove_tree(files, join_path(folder, entry.name));
}

/// Make the folder of code. What launchers have not finished there is removed.
Result<Unit> prepare(FileSystem& files, const std::string& folder) {
  const auto there = files.status(folder);
  if (there && there->kind != FileKind::Folder)
    return Error{Errc::Permission, fmt::format("'{}' is a link or a file, not a folder", folder),
                 "remove it"};
  TRY_VOID(make_folders(files, folder));
  remove_each(files, folder, is_new);
  return Unit{};
}

/// Copy the files into `fresh`, with their table; return its text.
Result<std::string> copy_all(FileSystem& files, const std::string& from, const std::string& fresh,
                             const CodeListing& listing, const Stopped& stopped, KeptCode& kept) {
  TRY_VOID(make_folders(files, fresh));
  std::vector<CodeFile> copied;
  for (const ListedFile& file : listing.files) {
    TRY(auto one, copy_file(files, from, fresh, file, stopped));
    if (!one) continue;
    kept.bytes += one->bytes;
    copied.push_back(std::move(*one));
  }
  kept.files = copied.size();
  const std::string table = format_code(std::move(copied));
  TRY_VOID(write_small_file(files, join_path(fresh, kCodeManifestName), table));
  return table;
}

/// Rename `fresh`. A copy of that name is the same, or was damaged since: it is replaced.
Result<Unit> put_in_place(FileSystem& files, const std::string& fresh, const std::string& to) {
  auto renamed = files.rename_new(fresh, to);
  if (renamed || renamed.error().code != Errc::AlreadyExists) return renamed;
  TRY_VOID(remove_tree(files, to));
  return files.rename_new(fresh, to);
}

}  // namespace

Result<KeptCode> keep_code(const RunFolder& run, const std::string& from,
                           const CodeListing& listing, const std::function<bool()>& stopped) {
  PosixFileSystem files;
  TRY_VOID(prepare(files, run.code()));
  const std::string fresh = join_path(run.code(), fmt::format("{}{}", kNew, ::getpid()));
  KeptCode kept;
  const auto table = copy_all(files, from, fresh, listing, stopped, kept);
  if (table.has_error()) {
    remove_each(files, run.code(), is_new);
    return table.error();
  }
  const std::string name = code_name(*table);
  kept.folder = join_path(run.code(), name);
  TRY_VOID(put_in_place(files, fresh, kept.folder));
  remove_each(files, run.code(), [&](const FolderEntry& entry) {
    return entry.name != name && is_code_name(entry.name);
  });
  return kept;
}

Result<std::string> kept_code(const RunFolder& run) {
  PosixFileSystem files;
  TRY(const auto entries, files.list(run.code()));
  for (const FolderEntry& entry : entries) {
    if (entry.kind != FileKind::Folder || !is_code_name(entry.name)) continue;
    const std::string folder = join_path(run.code(), entry.name);
    const auto table =
        read_small_file(files, join_path(folder, kCodeManifestName), kCodeManifestBytesMax);
    if (table && code_name(*table) == entry.name) return folder;
  }
  return Error{Errc::NotFound, fmt::format("'{}' has no code", run.code())};
}

}  // namespace train
