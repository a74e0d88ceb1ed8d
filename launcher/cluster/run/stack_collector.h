// Collects the stacks of an attempt's workers from its nodes, and writes them into the run's folder
// (RunFolder::stacks). Main thread only.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cluster/links/controller_messages.h"
#include "launcher/cluster/links/node_links.h"
#include "launcher/cluster/run/request_numbers.h"
#include "launcher/core/run_events.h"
#include "lib/net/notifier.h"
#include "lib/net/task.h"
#include "lib/stacks/stack_classes.h"
#include "lib/storage/run_folder.h"

namespace train {

class StackCollector {
 public:
  /// Commits use `disk`, too. All parts outlive this object.
  StackCollector(asio::any_io_executor executor, const Clock& clock, NodeLinks& links,
                 asio::thread_pool& disk, FileSystem& files, RunFolder folder)
      : clock_(clock),
        links_(links),
        disk_(disk),
        files_(files),
        folder_(std::move(folder)),
        changed_(executor),
        request_(first_request_number(clock)) {}

  /// Ask the nodes, wait until all have answered or 15 s have passed, and write a text and a JSON
  /// file. Only one collection runs at a time; others wait for it.
  Task<StacksCollected> collect(CollectStacks order);
  /// Take what a node has sent.
  void received(const Sender& from, const StacksTaken& message);
  /// Wait for no more stacks of this attempt: its supervisors end.
  void attempt_ended(Attempt attempt);

 private:
  Task<Unit> gather(const CollectStacks& order);
  /// Note of all nodes that have not answered why they will not.
  void give_up_waiting(std::string_view why);

  const Clock& clock_;
  NodeLinks& links_;
  asio::thread_pool& disk_;
  FileSystem& files_;
  const RunFolder folder_;
  Notifier changed_;
  bool busy_ = false;
  std::uint64_t request_;     // the newest
  Attempt attempt_;           // of it
  std::set<NodeId> missing_;  // have not answered it
  std::size_t bytes_ = 0;     // that they have sent for it
  std::vector<RankStacks> ranks_;
  std::vector<std::string> notes_;  // why some are missing
};

}  // namespace train
