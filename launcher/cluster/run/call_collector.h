// Calls functions that the programs of ranks serve (train/serve.h), and collects the answers. Main
// thread only.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cluster/links/controller_messages.h"
#include "launcher/cluster/links/node_links.h"
#include "launcher/cluster/run/request_numbers.h"
#include "launcher/cluster/run/worker_call.h"
#include "lib/net/notifier.h"
#include "lib/net/task.h"

namespace train {

class CallCollector {
 public:
  static constexpr std::size_t kAtATime = 64;
  /// Where each rank is; nothing: it has no worker.
  using Places = std::map<Rank, std::optional<NodeId>>;

  /// All parts outlive this object.
  CallCollector(asio::any_io_executor executor, const Clock& clock, NodeLinks& links)
      : clock_(clock), links_(links), changed_(executor), request_(first_request_number(clock)) {}

  /// Send the call to the nodes of these ranks, once, and wait until all have answered or its time
  /// is over. Each rank has an answer then. kAtATime calls may wait; further ones are refused.
  Task<CallAnswers> call(Attempt attempt, Places ranks, WorkerCall call);
  /// Take what a rank has answered.
  void received(const Sender& from, const WorkerAnswered& message);
  /// Wait for no more answers of this attempt: its workers have ended.
  void attempt_ended(Attempt attempt);

 private:
  struct Awaited {
    Attempt attempt;
    std::map<Rank, NodeId> missing;
    std::vector<RankAnswer> answers = {};
    std::size_t bytes = 0;
  };
  static Awaited expect(Attempt attempt, const Places& ranks);
  void send(std::uint64_t number, const Awaited& awaited, const WorkerCall& call);
  static void give_up(Awaited& awaited, std::string_view kind, const std::string& why);

  const Clock& clock_;
  NodeLinks& links_;
  Notifier changed_;
  std::uint64_t request_;                     // the newest
  std::map<std::uint64_t, Awaited> awaited_;  // by the number of the request
};

}  // namespace train
