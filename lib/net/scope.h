// A Scope owns coroutines; no coroutine runs without an owner. A part of the program spawns its
// flows into its Scope. Before that part ends, it cancels the scope and waits until all flows have
// ended.
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
  /// Check that every coroutine has ended (join()); others would use objects that are being
  /// destroyed.
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  /// Start a coroutine. `name` is for logs and for the check above. After cancel(), does nothing.
  /// An exception that leaves the coroutine is a bug and stops the program, except the one by which
  /// Asio ends a cancelled coroutine.
  void spawn(std::string name, asio::awaitable<void> coroutine);

  /// Ask all coroutines to end: each of their waits returns Errc::Cancelled, now and until they
  /// have ended (later waits only after some milliseconds). A flow must then join what it owns, and
  /// return. Does not wait.
  void cancel();

  /// Wait until all have ended, by themselves or after cancel(). Continues to wait if the caller
  /// itself is cancelled.
  asio::awaitable<void> join();

  std::size_t size() const;
  std::vector<std::string> names() const;  // of the running coroutines, in the order of their start

 private:
  struct State;
  // Shared with the handlers for the coroutines' ends, which may run after ~Scope during shutdown.
  std::shared_ptr<State> state_;
};

}  // namespace train
