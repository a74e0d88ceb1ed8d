// Downloads the kept checkpoints of a run from its nodes at the end of the run. After that, the
// run's folder is like that of any other run.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <string>
#include <vector>

#include "launcher/cluster/links/file_relay.h"
#include "launcher/cluster/run/run_record.h"
#include "launcher/report/user_messages.h"
#include "lib/transfer/file_fetcher.h"

namespace train {

class ReplicaDownloader {
 public:
  /// `disk`: where the run's checkpoints are committed and listed.
  ReplicaDownloader(asio::any_io_executor executor, const Clock& clock, asio::thread_pool& disk,
                    RunRecord& record, FileRelay& relay, UserMessages& messages);

  /// Download all of them, newest first. Return false if one stays on its nodes; a warning has then
  /// said why.
  asio::awaitable<bool> gather();
  /// Stop, and leave what is not here yet on its nodes.
  void cancel();

 private:
  bool can_all_be_read(const std::vector<ListedCheckpoint>& listed) const;
  Task<Unit> bring(const ListedCheckpoint& checkpoint);

  asio::thread_pool& disk_;
  RunRecord& record_;
  UserMessages& messages_;
  FileFetcher fetcher_;
  bool running_ = false;
};

}  // namespace train
