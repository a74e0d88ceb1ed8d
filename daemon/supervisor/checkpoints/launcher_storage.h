// Storage that only the launcher sees. The node keeps shards on its own disk, where the launcher
// fetches them, and it fetches from the launcher the checkpoint to restore. What the node has of
// the newest committed checkpoint stays there, so that a restart fetches only the rest.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <functional>

#include "daemon/supervisor/checkpoints/checkpoint_transport.h"
#include "lib/storage/manifest.h"
#include "lib/storage/posix_file_system.h"
#include "lib/transfer/file_fetcher.h"
#include "lib/transfer/file_server.h"
#include "lib/wire/daemon_messages.h"

namespace train {

class LauncherStorage : public CheckpointTransport {
 public:
  using Send = std::function<void(const Frame&)>;

  /// `data_dir` belongs to this run on this node. `send` sends to the launcher; what is lost is
  /// requested again.
  LauncherStorage(asio::any_io_executor executor, const Clock& clock, PrepareAttempt prepare,
                  Attempt attempt, const std::string& data_dir, Send send);

  Task<Unit> probe() override;
  std::string staging_folder() const override;
  boost::asio::awaitable<ShardWritten> store(Rank rank, CheckpointStaged message) override;
  Task<std::string> fetch(std::string from) override;
  void launcher_attached() override { fetcher_.ask_again(); }
  void serve(const ReadFile& request) override;
  void bytes(FileBytes answer) override { fetcher_.received(std::move(answer)); }
  void resolved(const CheckpointOutcome& outcome) override;
  bool relayed() const override { return true; }
  void clean_up() override;

 protected:
  /// Remove what is no longer needed once a checkpoint is committed or given up. Blocks.
  virtual void resolve(const CheckpointOutcome& outcome);
  std::string folder_for(const std::string& checkpoint) const;
  struct Found {
    std::string text;  // of the manifest
    Manifest manifest;
  };
  Task<Found> find(const std::string& from);
  /// Fetch what is missing here of the checkpoint. Return the folder that then has all of it.
  virtual Task<std::string> bring_checkpoint(const std::string& from, const Found& found);

  const PrepareAttempt prepare_;
  const Attempt attempt_;
  const std::string checkpoints_;  // laid out like the folder in storage
  Send send_;
  PosixFileSystem files_;
  boost::asio::thread_pool pool_{2};
  FileFetcher fetcher_;

 private:
  Result<Unit> prepare_folder();
  Result<Unit> free_space_for(const std::string& folder, const std::string& manifest);

  FileServer server_;
};

}  // namespace train
