// Takes a profile of this process's memory when its supervisor asks for one, on a thread of its
// own, which ends it in time whatever becomes of the supervisor.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "lib/base/result.h"
#include "lib/wire/worker_messages.h"

namespace train::sdk {

/// What a profile has shown.
struct SeenAllocations {
  std::vector<AllocationStack> stacks = {};
  AllocationFacts facts = {};
  std::string engine = {};              // see AllocationStacks
  std::vector<std::string> names = {};  // likewise
  std::string note = {};                // likewise
};

class MemoryProfiler {
 public:
  /// `send` takes the messages of the answer, on the profiler's thread.
  explicit MemoryProfiler(std::function<void(const AllocationStacks&)> send)
      : send_(std::move(send)) {}
  ~MemoryProfiler() { end(); }
  MemoryProfiler(const MemoryProfiler&) = delete;
  MemoryProfiler& operator=(const MemoryProfiler&) = delete;

  /// Begin a profile. Return why none is taken, or "": then the answer comes by `send`.
  std::string begin(const TakeMemoryProfile& order);
  /// End a profile early, if one is being taken: it is sent soon.
  void cancel();
  /// The same, and wait until it was sent. None begins any more.
  void end();

 private:
  void run(const TakeMemoryProfile& order);
  /// Take a profile by the profiler of the program's language, if it offers one. Return nothing if
  /// the SDK is to take it; `note` then says why, unless none is offered.
  std::optional<Result<SeenAllocations>> take_by_language(std::chrono::milliseconds time,
                                                          std::string& note);
  Result<SeenAllocations> take(std::chrono::milliseconds time);
  /// Return whether the profile was cancelled.
  bool wait_until(std::chrono::steady_clock::time_point time);

  const std::function<void(const AllocationStacks&)> send_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool cancelled_ = false, ended_ = false;
  std::atomic<bool> running_ = false;
  std::thread thread_;
};

/// Divide an answer into messages that fit into a frame. Pure.
std::vector<AllocationStacks> answer_in_pieces(std::uint64_t request, SeenAllocations seen);

}  // namespace train::sdk
