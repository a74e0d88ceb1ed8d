// How checkpoints get from this node into the run's storage, and committed ones back to it. One
// kind for each way that storage can be reached: shared_storage.h.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <string>

#include "lib/base/ids.h"
#include "lib/net/task.h"
#include "lib/wire/attempt_messages.h"
#include "lib/wire/worker_messages.h"

namespace train {

class CheckpointTransport {
 public:
  virtual ~CheckpointTransport() = default;

  /// Before workers are started: whether checkpoints can be stored from here. One call at a time.
  virtual Task<Unit> probe() = 0;
  /// Where the workers of this attempt make the files of their shards; not there yet.
  virtual std::string staging_folder() const = 0;
  /// Store one staged folder, which is ours from now on, as the shard of `rank`. ShardWritten says
  /// what became of it: it names where the shard is, or the error.
  virtual boost::asio::awaitable<ShardWritten> store(Rank rank, CheckpointStaged message) = 0;
  /// The folder on this node with the files of the committed checkpoint that the launcher names
  /// `from`; whole and verified where it had to be brought here.
  virtual Task<std::string> fetch(std::string from) = 0;
  // What the launcher says. Most kinds have no use for it.
  /// It is there, or another one is: what was asked before may be lost.
  virtual void launcher_attached() {}
  virtual void serve(const ReadFile& /*request*/) {}
  virtual void bytes(FileBytes /*answer*/) {}
  virtual void settled(const CheckpointOutcome& /*outcome*/) {}
  virtual void keep(KeepShard /*order*/) {}
  /// Whether the launcher has to fetch shards from this node.
  virtual bool relayed() const { return false; }
  /// Nobody waits any more for what is still being stored: it need not be.
  virtual void give_up() {}
  /// The attempt is over: remove what is only of use to it.
  virtual void clean_up() = 0;
};

}  // namespace train
