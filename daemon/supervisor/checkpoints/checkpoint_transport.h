// Moves checkpoints from this node into the run's storage, and committed ones back to the node.
// There is one kind of transport for each way to reach that storage, such as shared_storage.h.
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

  /// Check, before workers are started, whether checkpoints can be stored from here. One call at a
  /// time.
  virtual Task<Unit> probe() = 0;
  /// Return the folder in which the workers of this attempt make the files of their shards. It does
  /// not exist yet.
  virtual std::string staging_folder() const = 0;
  /// Store one staged folder, which is ours from now on, as the shard of `rank`. Return where the
  /// shard is, or the error.
  virtual boost::asio::awaitable<ShardWritten> store(Rank rank, CheckpointStaged message) = 0;
  /// Return the folder on this node with the files of the committed checkpoint that the launcher
  /// names `from`. If they had to be fetched, they are complete and verified.
  virtual Task<std::string> fetch(std::string from) = 0;
  /// As fetch(), for a validation. What was fetched for the previous one may be removed.
  virtual Task<std::string> fetch_to_validate(std::string from) { return fetch(std::move(from)); }
  // The calls below pass on the launcher's messages. Most kinds have no use for them.
  /// Note that a launcher has attached, perhaps another one: earlier requests may be lost.
  virtual void launcher_attached() {}
  virtual void serve(const ReadFile& /*request*/) {}
  virtual void bytes(FileBytes /*answer*/) {}
  virtual void resolved(const CheckpointOutcome& /*outcome*/) {}
  virtual void keep(KeepShard /*order*/) {}
  /// Return whether the launcher has to fetch shards from this node.
  virtual bool relayed() const { return false; }
  /// Give up what is still being stored: nobody waits for it any more.
  virtual void give_up() {}
  /// Remove what only this attempt needed, because it is over.
  virtual void clean_up() = 0;
};

}  // namespace train
