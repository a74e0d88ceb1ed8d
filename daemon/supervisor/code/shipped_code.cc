#include "daemon/supervisor/code/shipped_code.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
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

}  // namespace

ShippedCode::ShippedCode(asio::any_io_executor executor, const Clock& clock, Attempt attempt,
                         std::string data_dir, std::function<void(const Frame&)> send)
    : data_dir_(std::move(data_dir)),
      fetcher_(executor, clock, pool_, [attempt, send = std::move(send)](const ReadFile& read) {
        send(encode(read, attempt));
      }) {}

std::string ShippedCode::folder_for(const std::string& from) const {
  return join_path(data_dir_, join_path("code", name_in(from)));
}

Task<Unit> ShippedCode::bring(std::string from) {
  if (from.empty()) co_return Unit{};
  auto fetching = fetch(from);
  auto fetched = co_await std::move(fetching);
  if (fetched.has_error())
    co_return std::move(fetched).error().with_context(
        fmt::format("bringing the code '{}' to this node", from));
  co_return Unit{};
}

Task<Unit> ShippedCode::fetch(std::string from) {
  if (!is_code_name(name_in(from)))
    co_return Error{Errc::InvalidArgument, "that is no folder of a run's code"};
  auto reading = fetcher_.fetch_small(from, std::string(kCodeManifestName), kCodeManifestBytesMax);
  CO_TRY(const std::string table, co_await std::move(reading));
  if (code_name(table) != name_in(from))
    co_return Error{Errc::Corrupt, "its table is not the one that its name says",
                    "start train-run again: it makes a new copy"};
  CO_TRY(const std::vector<CodeFile> files, parse_code(table));
  const std::string folder = folder_for(from);
  auto preparing = run_on<Unit>(pool_, [&] { return prepare_folder(folder, files); });
  CO_TRY_VOID(co_await std::move(preparing));
  FetchRequest request{.folder = from, .into = folder, .files = {files.begin(), files.end()}};
  auto bringing = fetcher_.fetch(std::move(request));
  CO_TRY_VOID(co_await std::move(bringing));
  auto finishing = run_on<Unit>(pool_, [&]() -> Result<Unit> {
    for (const CodeFile& file : files)
      if (file.executable) TRY_VOID(make_executable(join_path(folder, file.path)));
    return Unit{};
  });
  co_return co_await std::move(finishing);
}

Result<Unit> ShippedCode::prepare_folder(const std::string& folder,
                                         const std::vector<CodeFile>& files) {
  TRY_VOID(make_run_data(files_, data_dir_));
  TRY_VOID(make_folders(files_, folder));
  if (in_use_.get() < 0) {
    const std::string all = parent_path(folder);
    FileDescriptor held(::open(all.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (held.get() < 0 || ::flock(held.get(), LOCK_SH | LOCK_NB) != 0)
      return system_error(errno, "locking " + all);
    in_use_ = std::move(held);
  }
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
