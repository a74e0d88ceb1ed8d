#include "launcher/cluster/run/run_takeover.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <thread>

#include "launcher/cluster/links/cluster_links.h"
#include "launcher/cluster/links/node_source.h"
#include "launcher/cluster/links/node_survey.h"
#include "launcher/cluster/notify/event_notifier.h"
#include "launcher/cluster/run/failover_note.h"
#include "launcher/cluster/run/folder_owner.h"
#include "launcher/core/failover_vote.h"
#include "launcher/spec/secrets.h"
#include "lib/base/host.h"
#include "lib/net/run_owner.h"
#include "lib/net/tls_files.h"
#include "lib/storage/posix_file_system.h"
#include "lib/storage/storage_marker.h"

namespace train {
namespace {

constexpr Duration kAskLimit = seconds(5), kFindLimit = seconds(5);
constexpr std::uint64_t kKeyBytesMax = 256;
constexpr int kLooksMax = 10;  // NFS may show the mark a little later
constexpr auto kLookEvery = milliseconds(200);

Result<TlsFiles> credentials_of(const JobSpec& spec) {
  return TlsFiles::read({spec.cluster.token_file, spec.cluster.tls}, CertificateRole::Launcher);
}

/// The launcher's generation, and its text.
StorageCheck storage_check(const RunFolder& folder, const std::string& mark) {
  StorageCheck check{.run_dir = folder.path(),
                     .generation = {},
                     .mark = "",
                     .prober = fmt::format("{}-{}", host_name(), ::getpid())};
  const auto space = mark.find(' ');
  (void)std::from_chars(mark.data(), mark.data() + std::min(space, mark.size()),
                        check.generation.value);
  if (space != std::string::npos) check.mark = mark.substr(space + 1);
  return check;
}

/// Check that the folder is still that of the controller which gave the order.
Result<Unit> check_controller(const StorageCheck& check) {
  PosixFileSystem files;
  TRY(const bool same, has_storage_marker(files, check.run_dir, check.generation, check.mark));
  if (same) return Unit{};
  return Error{Errc::AlreadyExists,
               fmt::format("another controller has taken the run in '{}'", check.run_dir)};
}

}  // namespace

Result<Unit> check_failover(const JobSpec& spec, const RunFolder& folder, const std::string& mark,
                            const std::map<std::string, std::string>& environment) {
  PosixFileSystem files;
  TRY_VOID(check_folder_owner(folder.path(), "the run " + spec.run_config.name));
  const StorageCheck check = storage_check(folder, mark);
  auto checked = check_storage(files, check);
  for (int looks = 1; looks < kLooksMax && checked.has_error(); ++looks) {
    if (checked.error().code != Errc::InvalidArgument) break;
    std::this_thread::sleep_for(kLookEvery);
    checked = check_storage(files, check);
  }
  TRY_VOID(std::move(checked));
  TRY(const std::string key, read_small_file(files, folder.owner_key(), kKeyBytesMax));
  if (!is_owner_key(key.substr(0, key.find_last_not_of(" \n") + 1)))
    return Error{Errc::Corrupt, folder.owner_key() + " is damaged"};
  TRY([[maybe_unused]] const auto worker_env, spec::worker_environment(spec, environment));
  TRY([[maybe_unused]] const auto targets, notify_targets(spec.run_config.notify, environment));
  TRY(const ClusterConfig cluster, with_found_nodes(spec.cluster, kFindLimit));
  TRY(const TlsFiles tls, credentials_of(spec));
  return check_nodes(cluster.nodes, tls.context().has_value());
}

Result<Unit> may_take_over(const JobSpec& spec, const RunFolder& folder, const std::string& mark,
                           const std::string& run_id, const std::string& build) {
  const StorageCheck check = storage_check(folder, mark);
  TRY_VOID(check_controller(check));
  TRY(const FailoverNote note, read_failover_note(folder, check.generation));
  TRY(const TlsFiles tls, credentials_of(spec));
  ClusterConfig cluster = spec.cluster;
  cluster.nodes = note.voters;
  TRY_VOID(check_nodes(cluster.nodes, tls.context().has_value()));
  auto diallers = diallers_of(cluster, 1);
  TRY_VOID(may_take_over(ask_for_launcher(diallers, tls, build, run_id, kAskLimit)));
  return check_controller(check);  // meanwhile another node may have been faster
}

}  // namespace train
