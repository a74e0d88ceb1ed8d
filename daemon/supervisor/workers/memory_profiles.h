// Asks the SDK of workers what they allocate, and collects the answers. Main thread only.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lib/base/ids.h"
#include "lib/net/notifier.h"
#include "lib/net/task.h"
#include "lib/wire/worker_messages.h"

namespace train {

class MemoryProfiles {
 public:
  using Send = std::function<void(Rank rank, const Frame& frame)>;

  struct Allocations {
    std::vector<AllocationStack> stacks = {};
    AllocationFacts facts = {};
    std::string engine = {};  // see AllocationStacks, for these three
    std::vector<std::string> names = {};
    std::string note = {};
  };

  /// `send` passes a frame to a worker that is connected.
  MemoryProfiles(asio::any_io_executor executor, Attempt attempt, Send send)
      : attempt_(attempt), send_(std::move(send)), changed_(std::move(executor)) {}

  /// Ask a worker that knows TakeMemoryProfile, and wait for its answer: `time`, and some seconds.
  Task<Allocations> ask(Rank rank, Duration time);
  /// Take an answer. An error ends the worker's connection.
  Result<Unit> received(Rank rank, AllocationStacks message);
  /// The worker has closed its connection.
  void closed(Rank rank);

  static constexpr std::size_t kAddressesMax = std::size_t{2} << 20;  // of an answer
  static constexpr std::size_t kStacksMax = 65536;
  static constexpr std::size_t kNamesMax = 65536, kNameBytesMax = 1024;

 private:
  struct Awaited {
    Rank rank;
    Allocations allocations = {};
    std::size_t addresses = 0;
    bool complete = false;
    std::string error = {};
  };

  const Attempt attempt_;
  const Send send_;
  Notifier changed_;
  std::uint64_t request_ = 0;                 // the newest
  std::map<std::uint64_t, Awaited> awaited_;  // by the number of the request
};

}  // namespace train
