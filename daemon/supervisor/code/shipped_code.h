// The job's code on this node, if the job ships it: a copy of what the launcher keeps, in which all
// processes of the job start. Main thread only, except for the disk's work.
#pragma once

#include <boost/asio/thread_pool.hpp>
#include <functional>
#include <string>
#include <vector>

#include "lib/base/file_descriptor.h"
#include "lib/net/notifier.h"
#include "lib/storage/code_manifest.h"
#include "lib/storage/posix_file_system.h"
#include "lib/transfer/file_fetcher.h"
#include "lib/wire/codec.h"

namespace train {

class ShippedCode {
 public:
  /// `data_dir` belongs to this run on this node. `send` sends to the launcher; what is lost is
  /// requested again.
  ShippedCode(asio::any_io_executor executor, const Clock& clock, Attempt attempt,
              std::string data_dir, std::function<void(const Frame&)> send);

  /// Return the folder in which the processes of a job start whose launcher has its code at `from`.
  std::string folder_for(const std::string& from) const;
  /// Fetch what is missing here of the code at `from`, or was changed here. "" is no code. Links
  /// and other things that processes of the job have put in place of its files or folders are
  /// removed. If others may run in the folder (`in_use`), nothing is changed in a copy that was
  /// whole once. Return whether it was whole before, so that what the node's setup has made in it
  /// is there. Calls wait for each other. While this object lives, no traind takes the folder for
  /// left over (NodeData).
  Task<bool> bring(std::string from, bool in_use);
  /// End with Cancelled what is being fetched, and all that is requested later; return once
  /// nothing is written any more.
  asio::awaitable<void> stop();

  void launcher_attached() { fetcher_.ask_again(); }
  /// Return whether the launcher's answer is to a request of ours; if so, pass it on.
  bool waits_for(const FileBytes& answer) const { return fetcher_.waits_for(answer); }
  void received(FileBytes answer) { fetcher_.received(std::move(answer)); }

 private:
  Task<bool> fetch(std::string from, bool in_use);
  Result<Unit> hold(const std::string& folder);
  Result<Unit> prepare_folder(const std::string& folder, const std::vector<CodeFile>& files);

  const std::string data_dir_;
  PosixFileSystem files_;
  boost::asio::thread_pool pool_{1};
  FileFetcher fetcher_;
  Notifier changed_;
  bool bringing_ = false, stopped_ = false;
  FileDescriptor held_;  // the folder of all code, locked
};

}  // namespace train
