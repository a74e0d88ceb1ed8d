// Has nodes take profiles of ranks, and writes them into the run's folder (RunFolder::profiles).
// Main thread only.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstdint>
#include <map>
#include <string>

#include "launcher/cluster/links/controller_messages.h"
#include "launcher/cluster/links/node_links.h"
#include "launcher/cluster/run/request_numbers.h"
#include "launcher/cluster/run/run_requests.h"
#include "lib/net/notifier.h"
#include "lib/net/task.h"
#include "lib/storage/run_folder.h"

namespace train {

class ProfileCollector {
 public:
  static constexpr std::size_t kAtATime = 4;

  /// Commits use `disk`, too. All parts outlive this object.
  ProfileCollector(asio::any_io_executor executor, const Clock& clock, NodeLinks& links,
                   asio::thread_pool& disk, FileSystem& files, RunFolder folder)
      : clock_(clock),
        links_(links),
        disk_(disk),
        files_(files),
        folder_(std::move(folder)),
        changed_(executor),
        request_(first_request_number(clock)) {}

  /// Have a profile taken, and write it: the answer's path is that of a text, beside which are
  /// files with the other endings of kProfileEndings. One profile of a rank, and kAtATime of all,
  /// can be taken at a time; further ones are refused.
  Task<RequestAnswer> collect(Attempt attempt, NodeId node, ProfileRequest request);
  /// Take what a node has sent.
  void received(const Sender& from, const ProfileTaken& message);
  /// Answer those who wait for a profile of this attempt: its supervisors end, and send no more.
  void attempt_ended(Attempt attempt);

 private:
  struct Awaited {
    Sender from;
    Rank rank;
    std::string bytes = {};
    bool complete = false;
    std::string error = {};
  };
  std::string why_not(Rank rank) const;
  Task<Awaited> wait_for(std::uint64_t number, Duration time);
  Task<RequestAnswer> write(Awaited answer);

  const Clock& clock_;
  NodeLinks& links_;
  asio::thread_pool& disk_;
  FileSystem& files_;
  const RunFolder folder_;
  Notifier changed_;
  std::uint64_t request_;                     // the newest
  std::map<std::uint64_t, Awaited> awaited_;  // by the number of the request
};

}  // namespace train
