#include "launcher/cluster/run/run_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "launcher/cluster/checkpoints/remote_run.h"
#include "launcher/cluster/groups/groups_folder.h"
#include "launcher/cluster/sweep/sweep_folder.h"
#include "lib/base/host.h"
#include "lib/storage/checkpoint_store.h"
#include "lib/storage/posix_file_system.h"
#include "lib/storage/run_folder.h"

namespace train {
namespace {

std::filesystem::path registry_dir() {
  if (const char* state = std::getenv("XDG_STATE_HOME"); state != nullptr && *state != '\0')
    return std::filesystem::path(state) / "trainrun/runs";
  return std::filesystem::path(home_folder()) / ".local/state/trainrun/runs";
}

/// Return the working folder of a run in an object store, brought up to date.
Result<std::string> find_remote_run(const std::string& url) {
  const std::string path = run_path(parent_path(url), url.substr(url.rfind('/') + 1));
  PosixFileSystem files;
  const RunFolder folder(path);
  if (!is_gone(files, folder.lock())) {
    const auto lock = files.lock(folder.lock());
    const bool runs_here = lock.has_error() && lock.error().code == Errc::Unavailable;
    if (runs_here) return path;
  }
  TRY(auto remote, RemoteRun::open(url));
  TRY(const bool there, remote->exists());
  if (!there) return Error{Errc::NotFound, fmt::format("no run is in '{}'", url)};
  TRY_VOID(make_folders(files, path));
  TRY_VOID(remote->fetch(folder));
  return path;
}

}  // namespace

void register_run(const std::string& name, const std::string& path) {
  std::error_code ec;
  const auto dir = registry_dir();
  std::filesystem::create_directories(dir, ec);
  if (ec) return;
  // The entry only names a folder, which exists.
  (void)replace_private_file(dir / name, path + "\n");
}

std::vector<std::string> registered_runs(std::size_t names_max) {
  std::vector<std::string> names;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry(registry_dir(), failed), end;
       !failed && entry != end && names.size() < names_max; entry.increment(failed)) {
    std::string name = entry->path().filename().string();
    if (check_run_name(name)) names.push_back(std::move(name));
  }
  std::sort(names.begin(), names.end());
  return names;
}

Result<std::string> find_run(const std::string& given, const std::string& storage_path) {
  std::string run = given;
  while (run.ends_with('/') && run.size() > 1) run.pop_back();
  if (is_object_url(run)) return find_remote_run(run);
  std::error_code ec;
  const auto is_run = [&](const std::filesystem::path& path) {
    return std::filesystem::exists(path / "events.jsonl", ec);
  };
  if (is_run(run)) return std::filesystem::absolute(run, ec).string();
  if (const auto trial = find_trial(run, storage_path); trial && is_run(*trial)) return *trial;
  if (const auto group = find_group(run, storage_path); group && is_run(*group)) return *group;
  if (const auto groups = find_groups(run, storage_path))
    return Error{Errc::NotFound, fmt::format("no replica group of '{}' has begun yet", *groups)};
  if (const auto sweep = find_sweep(run, storage_path))
    return Error{Errc::NotFound, fmt::format("'{}' is a sweep, and not a run", *sweep),
                 fmt::format("name one of its trials: {}/0", run)};
  if (run.find('/') == std::string::npos) {
    if (is_object_url(storage_path)) return find_remote_run(run_location(storage_path, run));
    if (is_run(std::filesystem::path(storage_path) / run))
      return (std::filesystem::path(storage_path) / run).string();
    std::string path;
    if (std::ifstream file(registry_dir() / run); std::getline(file, path)) {
      if (is_object_url(path)) return find_remote_run(path);
      if (is_run(path)) return path;
    }
  }
  return Error{Errc::NotFound,
               fmt::format("no run '{}': it is not a run's folder, and is in neither {} nor {}",
                           run, storage_path, registry_dir().string()),
               "give the run's folder, or --storage-path"};
}

}  // namespace train
