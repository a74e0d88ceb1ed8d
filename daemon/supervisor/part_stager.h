// Stores the parts of checkpoints: digest, sync and move the files that workers staged, on two
// threads of its own; nobody waits for it but the checkpoint.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/thread_pool.hpp>
#include <string>

#include "lib/base/ids.h"
#include "lib/storage/posix_file_system.h"
#include "lib/wire/messages.h"

namespace train {

class PartStager {
 public:
  /// What became of one staged folder. `run_dir` and `epoch` are the attempt's.
  boost::asio::awaitable<PartWritten> store(Rank rank, CheckpointStaged message,
                                            std::string run_dir, std::uint64_t epoch,
                                            Attempt attempt);
  void join() { pool_.join(); }

 private:
  boost::asio::thread_pool pool_{2};  // while one part waits for the disk, another is read
  PosixFileSystem files_;
};

}  // namespace train
