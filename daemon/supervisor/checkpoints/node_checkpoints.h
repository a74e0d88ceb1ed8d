// Handles the checkpoints of one attempt on this node: the transport that they take
// (checkpoint_transport.h), which may differ from the requested one, and the folders in which
// workers make them.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "daemon/supervisor/checkpoints/checkpoint_transport.h"
#include "lib/base/time.h"
#include "lib/net/scope.h"
#include "lib/wire/daemon_messages.h"

namespace train {

class NodeCheckpoints {
 public:
  struct Location {
    Attempt attempt;
    std::string spool_dir, data_dir;  // see SupervisorOptions
  };
  /// `send` sends to the launcher; a lost message is not sent again.
  NodeCheckpoints(asio::any_io_executor executor, Scope& scope, const Clock& clock,
                  Location location, std::function<void(const Frame&)> send)
      : executor_(executor),
        scope_(scope),
        clock_(clock),
        location_(std::move(location)),
        send_(std::move(send)) {}

  /// Choose the transport. Call this before the other functions, except for tell(), give_up() and
  /// clean_up(), which do nothing until then.
  void prepare(const PrepareAttempt& message);
  /// Check whether checkpoints can be stored from here. If this node does not see the launcher's
  /// storage, and may relay, store them through the launcher instead.
  Task<Unit> probe();
  bool relayed() const { return transport_->relayed(); }

  /// Return the folder in which the worker makes its files.
  std::string staging_folder(Rank rank) const;
  /// Make that folder. Hanging storage blocks neither the caller's thread nor, after
  /// `upload_timeout`, the caller.
  Task<Unit> make_staging_folder(Rank rank);

  // See CheckpointTransport.
  asio::awaitable<ShardWritten> store(Rank rank, CheckpointStaged message) {
    return transport_->store(rank, std::move(message));
  }
  Task<std::string> fetch(std::string from) { return transport_->fetch(std::move(from)); }
  Task<std::string> fetch_to_validate(std::string from) {
    return transport_->fetch_to_validate(std::move(from));
  }
  /// Pass a message from the launcher on to the transport.
  template <class F>
  void tell(F&& saying) {
    if (transport_) saying(*transport_);
  }
  void give_up();
  void clean_up();

 private:
  std::unique_ptr<CheckpointTransport> transport();
  void say_trouble(const std::string& trouble);

  asio::any_io_executor executor_;
  Scope& scope_;
  const Clock& clock_;
  const Location location_;
  const std::function<void(const Frame&)> send_;
  PrepareAttempt prepare_;
  std::unique_ptr<CheckpointTransport> transport_;
  TimePoint told_at_{};  // when we last reported that storage is slow
};

}  // namespace train
