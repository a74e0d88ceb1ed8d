// The functions that this program serves (train/serve.h), and the calls of them that wait. Any
// thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "lib/model/worker_call.h"
#include "sdk/include/train/serve.h"

namespace train::sdk {

struct ServedFunction {
  std::function<Value(const Value&)> function;
  ServeWhen when = ServeWhen::AtReport;
  bool of_run = false;  // served while there was a run, so it may refer to what the loop has
};

/// Functions by name: of the process, since a program may serve before it has a session.
class ServedFunctions {
 public:
  static ServedFunctions& of_process();
  void serve(const std::string& name, ServedFunction function);
  /// Return the function; one without a target if there is none.
  ServedFunction find(const std::string& name) const;
  /// Return their names, "a, b".
  std::string names() const;
  /// Forget those that were served while this process had a run.
  void forget_those_of_run();

 private:
  mutable std::mutex mutex_;
  std::map<std::string, ServedFunction> functions_;
};

class ServedCalls {
 public:
  struct Call {
    std::uint64_t request = 0;
    std::string name, argument;  // JSON
  };
  struct Answer {
    std::uint64_t request = 0;
    std::string result = {};               // JSON
    std::string error = {};                // empty: there is a result
    std::string_view kind = kCallRefused;  // of the error
  };

  /// `answer` is called without any lock of ours, on the thread that ran the function.
  ServedCalls(const ServedFunctions& functions, std::function<void(Answer)> answer)
      : functions_(functions), answer_(std::move(answer)) {}
  ~ServedCalls() { close(""); }
  ServedCalls(const ServedCalls&) = delete;
  ServedCalls& operator=(const ServedCalls&) = delete;

  /// A call has come. One that is to run at once begins to.
  void add(Call call);
  /// Return whether this thread runs a call.
  static bool in_call();
  /// Return whether run() would run a call on this thread. Cheap if there is none.
  bool waiting() const { return waiting_.load(std::memory_order_relaxed) && !in_call(); }
  /// Run the calls that wait for the loop, on this thread; none from within a call. Return how
  /// many. Lets Stopped out.
  std::size_t run();
  /// Refuse what waits and what comes from now on, for this reason ("": without an answer). Waits
  /// for a call that runs at once.
  void close(const std::string& why);

 private:
  void run_at_once();
  Answer call(const Call& call) const;

  const ServedFunctions& functions_;
  const std::function<void(Answer)> answer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Call> for_loop_, at_once_;
  std::atomic<bool> waiting_ = false;
  bool closed_ = false;
  std::string why_;
  std::thread thread_;  // of calls at once; started by the first
};

}  // namespace train::sdk
