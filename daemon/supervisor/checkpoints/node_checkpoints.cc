#include "daemon/supervisor/checkpoints/node_checkpoints.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>

#include "daemon/supervisor/checkpoints/launcher_storage.h"
#include "daemon/supervisor/checkpoints/object_storage.h"
#include "daemon/supervisor/checkpoints/replica_storage.h"
#include "daemon/supervisor/checkpoints/shared_storage.h"
#include "lib/net/blocking.h"
#include "lib/net/within.h"
#include "lib/storage/posix_file_system.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"
#include "lib/wire/daemon_messages.h"

namespace train {
namespace {

constexpr Duration kTroubleToldEvery = seconds(10);

}  // namespace

void NodeCheckpoints::prepare(const PrepareAttempt& message) {
  prepare_ = message;
  transport_ = transport();
}

std::unique_ptr<CheckpointTransport> NodeCheckpoints::transport() {
  const std::string folder = location_.spool_dir + "/checkpoints";
  if (prepare_.replicas > 0)
    return std::make_unique<ReplicaStorage>(executor_, scope_, clock_, prepare_, location_.attempt,
                                            location_.data_dir, send_);
  if (!is_object_url(prepare_.run_dir))
    return std::make_unique<SharedStorage>(executor_, clock_, prepare_, location_.attempt, folder);
  return std::make_unique<ObjectStorage>(
      prepare_, location_.attempt, folder, [this](const std::string& text) {
        asio::post(executor_, [this, text] { say_trouble(text); });
      });
}

void NodeCheckpoints::say_trouble(const std::string& trouble) {
  const TimePoint now = clock_.now();
  if (now < told_at_ + kTroubleToldEvery) return;
  told_at_ = now;
  send_(encode(StorageTrouble{trouble}, location_.attempt));
}

Task<Unit> NodeCheckpoints::probe() {
  auto checked = co_await transport_->probe();
  const bool elsewhere = checked.has_error() && (checked.error().code == Errc::InvalidArgument ||
                                                 checked.error().code == Errc::Permission);
  if (!elsewhere || !prepare_.may_relay) co_return checked;
  transport_ = std::make_unique<LauncherStorage>(executor_, clock_, prepare_, location_.attempt,
                                                 location_.data_dir, send_);
  co_return co_await transport_->probe();
}

std::string NodeCheckpoints::staging_folder(Rank rank) const {
  return fmt::format("{}/rank-{:04}", transport_->staging_folder(), rank.value);
}

Task<Unit> NodeCheckpoints::make_staging_folder(Rank rank) {
  const std::string folder = staging_folder(rank);
  const std::function<Result<Unit>()> work = [folder]() -> Result<Unit> {
    PosixFileSystem files;
    return make_folders(files, folder);
  };
  // Named, because g++ 12 destroys twice what a co_await's temporaries hold.
  Task<Unit> making = run_unjoined(work);
  auto made = co_await within(milliseconds(prepare_.upload_timeout_ms), std::move(making));
  if (made.has_error()) co_return std::move(made).error().with_context("making '" + folder + "'");
  co_return Unit{};
}

void NodeCheckpoints::give_up() {
  if (transport_) transport_->give_up();
}

void NodeCheckpoints::clean_up() {
  if (transport_) transport_->clean_up();
}

}  // namespace train
