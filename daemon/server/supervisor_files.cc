#include "daemon/server/supervisor_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>

#include "lib/net/hmac.h"
#include "lib/storage/own_folder.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

// "s-TAG.sock"; "s-TAG.UID.sock" for a supervisor of another user.
constexpr std::string_view kPrefix = "s-", kSuffix = ".sock";

SupervisorFiles files_of(const std::string& runtime_dir, const std::string& spool_dir,
                         const std::string& tag, uid_t uid) {
  const std::string whose = uid == ::geteuid() ? "" : fmt::format(".{}", uid);
  return {fmt::format("{}/{}{}{}{}", runtime_dir, kPrefix, tag, whose, kSuffix),
          fmt::format("{}/{}", user_folder(spool_dir, uid), tag),
          fmt::format("trainrun-{}{}", tag, whose), uid};
}

}  // namespace

std::string user_folder(const std::string& folder, uid_t uid) {
  return uid == ::geteuid() ? folder : fmt::format("{}/user-{}", folder, uid);
}

SupervisorFiles supervisor_files(const std::string& runtime_dir, const std::string& spool_dir,
                                 const AttemptKey& key, uid_t uid) {
  // A run id may be long, but a Unix socket's path may not (108 bytes), so the name is a hash. It
  // covers the runtime folder because of the cgroup's name: two trainds on one machine may serve
  // the same run, and must not take each other's workers for their own. A launcher chooses its
  // run's id: with a weaker hash it could choose another run's files.
  constexpr std::size_t kTagBytes = 12;
  const std::string text = fmt::format("{}\n{}\n{}", runtime_dir, key.run_id, key.attempt.value);
  const auto hash = hmac_sha256("trainrun attempt", text);
  return files_of(runtime_dir, spool_dir, hex_of({hash.data(), kTagBytes}), uid);
}

std::vector<SupervisorFiles> list_supervisor_files(const std::string& runtime_dir,
                                                   const std::string& spool_dir) {
  std::vector<SupervisorFiles> all;
  PosixFileSystem files;
  const auto entries = files.list(runtime_dir);
  if (!entries) return all;
  for (const FolderEntry& entry : *entries) {
    std::string_view name = entry.name;
    if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) continue;
    name.remove_prefix(kPrefix.size());
    name.remove_suffix(kSuffix.size());
    const auto dot = name.find('.');
    uid_t uid = ::geteuid();
    if (dot != std::string_view::npos) {
      const char* const end = name.data() + name.size();
      const auto [stop, error] = std::from_chars(name.data() + dot + 1, end, uid);
      if (stop != end || error != std::errc()) continue;
    }
    all.push_back(files_of(runtime_dir, spool_dir, std::string(name.substr(0, dot)), uid));
  }
  return all;
}

}  // namespace train
