// A Scope owns coroutines; no coroutine runs without an owner. A part of the program has a Scope
// and spawns its flows into it. Before that part ends, it cancels the scope and waits until all
// flows are gone.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <memory>
#include <string>
#include <vector>

namespace train {

namespace asio = boost::asio;

class Scope {
 public:
  explicit Scope(asio::any_io_executor executor);
  /// Every coroutine must have ended (join()): one that lives on would use what is being destroyed.
  /// Checked.
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// Start a coroutine. `name` is for logs and for the check above. After cancel() nothing starts
  /// any more. An exception that leaves the coroutine is a bug and stops the program, except the
  /// one by which Asio ends a cancelled coroutine.
  void spawn(std::string name, asio::awaitable<void> coroutine);

  /// Ask all coroutines to end. Whatever they wait for returns Errc::Cancelled, now and every time
  /// until they have ended (later times only after some milliseconds). A flow must then join what
  /// it owns, and return. Does not wait.
  void cancel();

  /// Wait until all have ended, by themselves or after cancel(). Keeps waiting when the caller
  /// itself is cancelled.
  asio::awaitable<void> join();

  std::size_t size() const;
  std::vector<std::string> names() const;  // of those that run, in the order of their start

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the coroutines' ends, which may come after ~Scope
                                  // when a program is torn down
};

}  // namespace train
