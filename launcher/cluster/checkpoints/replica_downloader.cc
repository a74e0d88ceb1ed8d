#include "launcher/cluster/checkpoints/replica_downloader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "lib/net/blocking.h"

namespace train {

ReplicaDownloader::ReplicaDownloader(asio::any_io_executor executor, const Clock& clock,
                                     asio::thread_pool& disk, RunRecord& record, FileRelay& relay,
                                     UserMessages& messages)
    : disk_(disk),
      record_(record),
      messages_(messages),
      fetcher_(executor, clock, disk, [this, &relay](const ReadFile& read) {
        relay.ask(read, [this](const FileBytes& answer) { fetcher_.received(answer); });
      }) {}

asio::awaitable<bool> ReplicaDownloader::gather() {
  running_ = true;
  auto listing = run_on<std::vector<ListedCheckpoint>>(
      disk_, [this]() -> Result<std::vector<ListedCheckpoint>> {
        TRY_VOID(record_.check_owner());
        return record_.checkpoints().list();
      });
  auto listed = co_await std::move(listing);
  if (listed.has_error()) co_return false;  // the run now belongs to another launcher
  bool all = can_all_be_read(*listed);
  std::erase_if(*listed, [](const ListedCheckpoint& one) {
    return one.manifest.has_error() || one.manifest->nodes().empty();
  });
  if (listed->empty()) co_return all;
  std::uint64_t bytes = 0;
  for (const ListedCheckpoint& one : *listed) bytes += one.manifest->total_bytes();
  messages_.phase(fmt::format(
      "bringing {} checkpoint{} ({:.1f} MiB) from {} to '{}'", listed->size(),
      listed->size() == 1 ? "" : "s", static_cast<double>(bytes) / (1 << 20),
      fmt::join(listed->back().manifest->nodes(), ", "), record_.checkpoints().folder()));
  for (auto one = listed->rbegin(); one != listed->rend(); ++one) {
    auto bringing = bring(*one);
    const auto brought = co_await std::move(bringing);
    if (!brought.has_error()) continue;
    all = false;
    messages_.warn(fmt::format("{} stays on {}: {} (`train-run resume` finds it there, for a week)",
                               checkpoint_name(one->number),
                               fmt::join(one->manifest->nodes(), ", "),
                               brought.error().describe()));
  }
  running_ = false;
  co_return all;
}

/// Return whether every manifest can be read. Of others nobody knows what nodes have of them, so
/// warn.
bool ReplicaDownloader::can_all_be_read(const std::vector<ListedCheckpoint>& listed) const {
  bool all = true;
  for (const ListedCheckpoint& one : listed) {
    if (!one.manifest.has_error()) continue;
    all = false;
    messages_.warn(
        fmt::format("{} cannot be read: {} (what nodes have of it stays there for a week)",
                    checkpoint_name(one.number), one.manifest.error().describe()));
  }
  return all;
}

Task<Unit> ReplicaDownloader::bring(const ListedCheckpoint& checkpoint) {
  std::map<std::string, std::vector<CheckpointFile>> by_location;
  for (const ManifestFile& file : checkpoint.manifest->files)
    if (!file.nodes.empty()) by_location[file.at].push_back(file);
  for (auto& [location, files] : by_location) {
    FetchRequest request{.folder = location, .into = checkpoint.path, .files = std::move(files)};
    auto fetching = fetcher_.fetch(std::move(request));
    CO_TRY_VOID(co_await std::move(fetching));
  }
  auto keeping = run_on<Unit>(disk_, [this, path = checkpoint.path]() -> Result<Unit> {
    TRY_VOID(record_.check_owner());
    return keep_here(record_.files(), path);
  });
  co_return co_await std::move(keeping);
}

void ReplicaDownloader::cancel() {
  if (running_) fetcher_.close(Error{Errc::Cancelled, "it was interrupted"});
}

}  // namespace train
