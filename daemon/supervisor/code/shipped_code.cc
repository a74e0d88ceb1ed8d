#include "daemon/supervisor/code/shipped_code.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <set>
#include <utility>

#include "daemon/supervisor/run_data.h"
#include "lib/base/size_text.h"
#include "lib/net/blocking.h"
#include "lib/storage/storage_marker.h"

namespace train {
namespace {

std::string name_in(const std::string& path) { return path.substr(path.rfind('/') + 1); }

/// Let whoever may read an executable file execute it.
Result<Unit> make_executable(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) return system_error(errno, "looking at " + path);
  const mode_t mode = (found.st_mode | (found.st_mode & 0444) >> 2) & 0777;
  if (!S_ISREG(found.st_mode) || mode == (found.st_mode & 07777)) return Unit{};
  if (::chmod(path.c_str(), mode) != 0) return system_error(errno, "making executable: " + path);
  return Unit{};
}

/// Remove what is at `path`, unless it is of this kind.
Result<Unit> clear_place(FileSystem& files, const std::string& path, FileKind wanted) {
  const auto there = files.status(path);
  if (there.has_error() && there.error().code != Errc::NotFound) return there.error();
  if (there.has_error() || there->kind == wanted) return Unit{};
  return there->kind == FileKind::Folder ? remove_tree(files, path) : files.remove_file(path);
}

/// Nothing may be written through links of the job's processes: clear the places of all files, and
/// of the folders above them.
Result<Unit> clear_places(FileSystem& files, const std::string& folder,
                          const std::vector<CodeFile>& code) {
  std::set<std::string> cleared;
  for (const CodeFile& file : code) {
    for (auto slash = file.path.find('/'); slash != std::string::npos;
         slash = file.path.find('/', slash + 1)) {
      const std::string above = file.path.substr(0, slash);
      if (cleared.insert(above).second)
        TRY_VOID(clear_place(files, join_path(folder, above), FileKind::Folder));
    }
    TRY_VOID(clear_place(files, join_path(folder, file.path), FileKind::File));
  }
  return Unit{};
}

/// Another supervisor, or traind, may hold it alone for a moment.
Result<Unit> lock_shared(int fd, const std::string& path) {
  constexpr int kTries = 500;
  for (int tried = 1; ::flock(fd, LOCK_SH | LOCK_NB) != 0; ++tried) {
    if (errno != EWOULDBLOCK || tried == kTries) return system_error(errno, "locking " + path);
    ::poll(nullptr, 0, 20);
  }
  return Unit{};
}

/// Remove the code of earlier launchers, as far as possible.
void remove_others(FileSystem& files, const std::string& all, const std::string& kept) {
  const auto entries = files.list(all);
  if (!entries) return;
  for (const FolderEntry& entry : *entries)
    if (entry.kind == FileKind::Folder && is_code_name(entry.name) && entry.name != kept)
      (void)remove_tree(files, join_path(all, entry.name));
}

}  // namespace

ShippedCode::ShippedCode(asio::any_io_executor executor, const Clock& clock, Attempt attempt,
                         std::string data_dir, std::function<void(const Frame&)> send)
    : data_dir_(std::move(data_dir)),
      fetcher_(
          executor, clock, pool_,
          [attempt, send = std::move(send)](const ReadFile& read) { send(encode(read, attempt)); }),
      changed_(executor) {}

std::string ShippedCode::folder_for(const std::string& from) const {
  return join_path(data_dir_, join_path("code", name_in(from)));
}

Task<bool> ShippedCode::bring(std::string from, bool in_use) {
  if (from.empty()) co_return true;
  while (bringing_) CO_TRY_VOID(co_await changed_.wait_until(TimePoint::max()));
  if (stopped_) co_return Error{Errc::Cancelled, "the attempt ends"};
  bringing_ = true;
  auto fetching = fetch(from, in_use);
  auto fetched = co_await std::move(fetching);
  bringing_ = false;
  changed_.notify();
  if (fetched.has_error())
    co_return std::move(fetched).error().with_context(
        fmt::format("bringing the code '{}' to this node", from));
  co_return *fetched;
}

asio::awaitable<void> ShippedCode::stop() {
  stopped_ = true;
  fetcher_.close(Error{Errc::Cancelled, "the attempt ends"});
  while (bringing_) {
    const auto woken = co_await changed_.wait_until(TimePoint::max());
    if (woken.has_error()) co_return;
  }
}

Task<bool> ShippedCode::fetch(std::string from, bool in_use) {
  if (!is_code_name(name_in(from)))
    co_return Error{Errc::InvalidArgument, "that is no folder of a run's code"};
  const std::string folder = folder_for(from);
  // The table comes last: a copy with its table was whole once.
  const std::string mark = join_path(folder, kCodeManifestName);
  auto looking = run_on<bool>(pool_, [&]() -> Result<bool> {
    TRY_VOID(hold(folder));
    const auto table = read_small_file(files_, mark, kCodeManifestBytesMax);
    return table && code_name(*table) == name_in(folder);
  });
  CO_TRY(const bool was_whole, co_await std::move(looking));
  if (in_use && was_whole) co_return true;
  auto reading = fetcher_.fetch_small(from, std::string(kCodeManifestName), kCodeManifestBytesMax);
  CO_TRY(const std::string table, co_await std::move(reading));
  if (code_name(table) != name_in(from))
    co_return Error{Errc::Corrupt, "its table is not the one that its name says",
                    "start train-run again: it makes a new copy"};
  CO_TRY(const std::vector<CodeFile> files, parse_code(table));
  auto preparing = run_on<Unit>(pool_, [&] { return prepare_folder(folder, files); });
  CO_TRY_VOID(co_await std::move(preparing));
  FetchRequest request{.folder = from,
                       .into = folder,
                       .files = {files.begin(), files.end()},
                       .durable = false};  // the next attempt looks at each file again
  auto bringing = fetcher_.fetch(std::move(request));
  CO_TRY_VOID(co_await std::move(bringing));
  auto finishing = run_on<Unit>(pool_, [&]() -> Result<Unit> {
    for (const CodeFile& file : files)
      if (file.executable) TRY_VOID(make_executable(join_path(folder, file.path)));
    TRY_VOID(clear_place(files_, mark, FileKind::File));
    return write_small_file(files_, mark, table);
  });
  CO_TRY_VOID(co_await std::move(finishing));
  co_return was_whole;
}

/// Make the folder, and lock it and what lies beside it as in use.
Result<Unit> ShippedCode::hold(const std::string& folder) {
  TRY_VOID(make_run_data(files_, data_dir_));
  const std::string all = parent_path(folder);
  TRY_VOID(clear_place(files_, all, FileKind::Folder));
  TRY_VOID(make_folders(files_, all));
  if (held_.get() < 0) {
    FileDescriptor held(::open(all.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (held.get() < 0) return system_error(errno, "opening " + all);
    if (::flock(held.get(), LOCK_EX | LOCK_NB) == 0) remove_others(files_, all, name_in(folder));
    TRY_VOID(lock_shared(held.get(), all));
    held_ = std::move(held);
  }
  TRY_VOID(clear_place(files_, folder, FileKind::Folder));
  return make_folders(files_, folder);
}

Result<Unit> ShippedCode::prepare_folder(const std::string& folder,
                                         const std::vector<CodeFile>& files) {
  TRY_VOID(clear_places(files_, folder, files));
  std::uint64_t bytes = 0;
  for (const CodeFile& file : files) {
    const auto there = files_.status(join_path(folder, file.path));
    if (!there || there->bytes != file.bytes) bytes += file.bytes;
  }
  TRY(const std::uint64_t free, files_.free_bytes(folder));
  if (free >= bytes + kFreeBytesMin) return Unit{};
  return Error{Errc::NoSpace,
               fmt::format("{} are free in '{}', and {} are missing of it", size_text(free), folder,
                           size_text(bytes)),
               "free some space there, or give traind another --data-dir"};
}

}  // namespace train
