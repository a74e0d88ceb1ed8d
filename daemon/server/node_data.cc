#include "daemon/server/node_data.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <ctime>

#include "daemon/core/launcher_orders.h"
#include "lib/base/file_descriptor.h"
#include "lib/storage/checkpoint_writer.h"
#include "lib/storage/own_folder.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

constexpr std::time_t kKeptSeconds = std::time_t{7} * 24 * 3600;
constexpr std::string_view kTrash = ".trash-";
constexpr std::string_view kRemoving = ".removing";  // at the end of a folder's name

}  // namespace

std::optional<std::string> NodeData::folder_of(const std::string& run_id) const {
  if (!is_run_id(run_id)) return std::nullopt;
  return join_path(folder_, run_id);
}

void NodeData::serve(const std::string& run_id, const ReadFile& request,
                     const FileServer::Reply& reply) {
  const auto folder = folder_of(run_id);
  if (!folder || !parse_shard_location(request.folder) || !check_file_path(request.path))
    return reply(FileServer::refusal(
        request, Error{Errc::InvalidArgument,
                       fmt::format("'{}' in '{}' is not a file of a checkpoint shard",
                                   escape_name(request.path), escape_name(request.folder))}));
  files_.serve(join_path(*folder, "checkpoints"), join_path(request.folder, request.path), request,
               reply);
}

void NodeData::remove_leftovers(const std::set<std::string>& living) {
  std::erase_if(ended_, [&](const std::string& run_id) {
    if (living.count(run_id) != 0) return false;
    if (const auto folder = folder_of(run_id)) remove(*folder, "its run is over");
    return true;
  });
}

// Rename the folder at once: the same run may begin again, and must not find half of it.
void NodeData::remove(const std::string& folder, const std::string& why) {
  const ActAs owner(account_);
  if (const auto ours = check_own_folder(folder); !ours) {
    if (ours.error().code != Errc::NotFound)
      say_("not removed: " + ours.error().describe(), folder);
    return;
  }
  PosixFileSystem files;
  const std::string trash =
      join_path(folder_, fmt::format("{}{}-{}", kTrash, ::getpid(), ++removals_));
  if (files.rename_new(folder, trash).has_error()) return;
  say_("removing data on this node: " + why, folder);
  boost::asio::post(pool_, [say = say_, account = account_, folder, trash] {
    const ActAs owner(account);
    if (const auto removed = remove_own_folder(trash); !removed)
      say("not removed: " + removed.error().describe(), folder);
  });
}

// Rename the folder at once: the attempt's next supervisor may make it again. If a traind before us
// died while it removed the folder, only the renamed one is left.
void NodeData::remove_later(const std::string& folder, std::function<void()> then) {
  const std::string removing = folder + std::string(kRemoving);
  bool is_free = true;
  {
    const ActAs owner(account_);
    PosixFileSystem files;
    auto renamed = check_own_folder(folder);
    if (renamed) renamed = files.rename_new(folder, removing);
    if (!renamed && renamed.error().code != Errc::NotFound)
      say_("not removed: " + renamed.error().describe(), folder);
    is_free = renamed || renamed.error().code != Errc::AlreadyExists;
  }
  boost::asio::post(
      pool_, [say = say_, account = account_, folder, removing, is_free, then = std::move(then)] {
        {
          const ActAs owner(account);
          if (const auto removed = remove_own_folder(removing); !removed)
            return say("not removed: " + removed.error().describe(), folder);
        }
        if (is_free) then();  // else the folder is there as well
      });
}

namespace {

/// Return when the run's folder was used last: when something was made or removed among its
/// checkpoints, or its code was brought; nothing if it has neither.
std::optional<std::time_t> last_use(const std::string& folder) {
  std::optional<std::time_t> newest;
  for (const char* part : {"checkpoints", "code"}) {
    struct stat found {};
    if (::lstat(join_path(folder, part).c_str(), &found) == 0)
      newest = std::max(newest.value_or(0), found.st_mtime);
  }
  return newest;
}

/// Return whether a supervisor holds the run's code (ShippedCode), so that it may be in use however
/// old it is.
bool is_in_use(const std::string& folder) {
  const FileDescriptor code(
      ::open(join_path(folder, "code").c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  return code.get() >= 0 && ::flock(code.get(), LOCK_EX | LOCK_NB) != 0;
}

}  // namespace

void NodeData::remove_old_leftovers() {
  const ActAs owner(account_);
  PosixFileSystem files;
  const auto entries = files.list(folder_);
  if (!entries) return;
  for (const FolderEntry& entry : *entries) {
    const std::string path = join_path(folder_, entry.name);
    if (entry.kind != FileKind::Folder || !check_own_folder(path)) continue;
    const auto used = last_use(path);
    if (used && *used + kKeptSeconds < ::time(nullptr) && !is_in_use(path))
      remove(path, "it has been unused for a week");
    else if (entry.name.starts_with(kTrash))
      remove(path, "an earlier traind was removing it");
  }
}

}  // namespace train
