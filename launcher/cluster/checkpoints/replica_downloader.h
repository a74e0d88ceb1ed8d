// At the end of a run whose checkpoints stay on nodes: what is kept of them comes to the run's
// folder, which is then like that of any other run.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <string>

#include "launcher/cluster/links/file_relay.h"
#include "launcher/cluster/run/run_record.h"
#include "lib/transfer/file_fetcher.h"

namespace train {

class ReplicaDownloader {
 public:
  struct Handlers {
    std::function<void(const std::string&)> say, warn;
  };
  /// `disk`: where the run's checkpoints are committed and listed.
  ReplicaDownloader(asio::any_io_executor executor, const Clock& clock, asio::thread_pool& disk,
                    RunRecord& record, FileRelay& relay, Handlers handlers);

  /// Bring all of them, the newest first. False where one stays on its nodes: why has been said.
  asio::awaitable<bool> gather();
  /// Leave what is not here yet where it is.
  void cancel();

 private:
  Task<Unit> bring(const ListedCheckpoint& checkpoint);

  asio::thread_pool& disk_;
  RunRecord& record_;
  Handlers handlers_;
  FileFetcher fetcher_;
  bool running_ = false;
};

}  // namespace train
