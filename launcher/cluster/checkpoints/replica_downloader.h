// Downloads the kept checkpoints of a run from its nodes at the end of the run. The run's folder is
// then like that of any other run.
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

  /// Download all of them, the newest first. Return false where one stays on its nodes; the
  /// handlers have been told why.
  asio::awaitable<bool> gather();
  /// Stop, and leave what is not here yet where it is.
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
