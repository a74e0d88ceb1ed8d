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

/// Copy one file; nothing if it is no longer there.
Result<std::optional<CodeFile>> copy_file(FileSystem& files, const std::string& from,
                                          const std::string& to, const ListedFile& listed) {
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

/// Remove all but `kept` of what launchers of this run have made.
void remove_others(FileSystem& files, const std::string& folder, const std::string& kept) {
  const auto entries = files.list(folder);
  if (!entries) return;
  for (const FolderEntry& entry : *entries)
    if (entry.name != kept && (is_code_name(entry.name) || entry.name.starts_with(kNew)))
      (void)remove_tree(files, join_path(folder, entry.name));
}

}  // namespace

Result<KeptCode> keep_code(const RunFolder& run, const std::string& from,
                           const CodeListing& listing) {
  PosixFileSystem files;
  const std::string fresh = join_path(run.code(), fmt::format("{}{}", kNew, ::getpid()));
  TRY_VOID(remove_tree(files, fresh));
  TRY_VOID(make_folders(files, fresh));
  std::vector<CodeFile> copied;
  KeptCode kept;
  for (const ListedFile& file : listing.files) {
    TRY(auto one, copy_file(files, from, fresh, file));
    if (!one) continue;
    kept.bytes += one->bytes;
    copied.push_back(std::move(*one));
  }
  kept.files = copied.size();
  const std::string table = format_code(std::move(copied));
  TRY_VOID(write_small_file(files, join_path(fresh, kCodeManifestName), table));
  const std::string name = code_name(table);
  kept.folder = join_path(run.code(), name);
  if (const auto renamed = files.rename_new(fresh, kept.folder);
      renamed.has_error() && renamed.error().code != Errc::AlreadyExists)
    return renamed.error();
  remove_others(files, run.code(), name);
  return kept;
}

Result<std::string> kept_code(const RunFolder& run) {
  PosixFileSystem files;
  TRY(const auto entries, files.list(run.code()));
  for (const FolderEntry& entry : entries)
    if (is_code_name(entry.name)) return join_path(run.code(), entry.name);
  return Error{Errc::NotFound, fmt::format("'{}' has no code", run.code())};
}

}  // namespace train
