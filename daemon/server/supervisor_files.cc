#include "daemon/server/supervisor_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include "lib/net/hmac.h"
#include "lib/storage/own_folder.h"
#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

SupervisorFiles files_of(const std::string& runtime_dir, const std::string& spool_dir,
                         const std::string& tag) {
  return {fmt::format("{}/s-{}.sock", runtime_dir, tag), fmt::format("{}/{}", spool_dir, tag),
          "trainrun-" + tag};
}

}  // namespace

SupervisorFiles supervisor_files(const std::string& runtime_dir, const std::string& spool_dir,
                                 const std::string& run_id, Attempt attempt) {
  // A run id may be long, a Unix socket's path may not (108 bytes). The folder is in it for the
  // control group: two traind on one machine may serve the same run, and must not take each other's
  // workers for their own.
  // A launcher chooses its run's id: by a weaker hash it could choose another run's files.
  constexpr std::size_t kTagBytes = 12;
  const std::string text = fmt::format("{}\n{}\n{}", runtime_dir, run_id, attempt.value);
  const auto hash = hmac_sha256("trainrun attempt", text);
  return files_of(runtime_dir, spool_dir, hex_of({hash.data(), kTagBytes}));
}

std::vector<SupervisorFiles> list_supervisor_files(const std::string& runtime_dir,
                                                   const std::string& spool_dir) {
  std::vector<SupervisorFiles> all;
  PosixFileSystem files;
  const auto entries = files.list(runtime_dir);
  if (!entries) return all;
  for (const FolderEntry& entry : *entries) {
    constexpr std::string_view kPrefix = "s-", kSuffix = ".sock";
    if (!entry.name.starts_with(kPrefix) || !entry.name.ends_with(kSuffix)) continue;
    all.push_back(files_of(
        runtime_dir, spool_dir,
        entry.name.substr(kPrefix.size(), entry.name.size() - kPrefix.size() - kSuffix.size())));
  }
  return all;
}

Result<Unit> remove_supervisor_files(const SupervisorFiles& files) {
  const auto removed = remove_own_folder(files.spool);
  ::unlink(files.socket.c_str());  // last: by it they are found
  TRY_VOID(removed);
  return Unit{};
}

}  // namespace train
