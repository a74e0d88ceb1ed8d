// The owner of coroutines: none runs without one. A part of the program has a Scope, spawns its
// flows into it, and before it ends cancels the scope and waits until all of them are gone.
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
  /// any more. An exception that leaves the coroutine is a bug and stops the program, but for the
  /// one by which Asio ends a cancelled coroutine.
  void spawn(std::string name, asio::awaitable<void> coroutine);

  /// Ask all to end: what they wait for returns Errc::Cancelled, now and every time until they have
  /// ended (not at once each time: after some milliseconds). A flow must return then, after it has
  /// joined what it owns. Does not wait.
  void cancel();

  /// Wait until all have ended by themselves or after cancel(). Goes on waiting when the caller
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
