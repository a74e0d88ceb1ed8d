// The worker's end of its supervisor's Unix socket, on a thread of its own ("trainrun-sdk"): bytes
// in and out. What is sent and what a frame means is its owner's (supervised_session.h). Plain
// POSIX: user programs link this.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "lib/wire/worker_messages.h"

namespace train::sdk {

/// A connection that has said hello and was welcomed.
struct JoinedSocket {
  int fd = -1;
  Welcome welcome;
  FrameReader reader;  // what came behind the welcome
};
/// Connect to the Unix socket at `path`. Unavailable when nobody answers there.
Result<int> connect_supervisor(const std::string& path);
/// Say hello on a connected socket, and wait for the welcome: ≤ 60 s, but without end where `hello`
/// is of one that stands by. Closes `fd` when it fails.
Result<JoinedSocket> join_supervisor(int fd, const WorkerHello& hello);

class SupervisorLink {
 public:
  /// All three are called on the link's thread, without any lock of the link held.
  struct Owner {
    /// Put the bytes to be sent next into the empty `out`; nothing: the link sleeps until wake().
    std::function<void(std::string& out)> fill;
    /// An Error closes the link.
    std::function<Result<Unit>(const Frame&)> on_frame;
    /// The last call: why the link is gone. Not called by stop().
    std::function<void(const Error&)> on_closed;
  };

  SupervisorLink(int fd, FrameReader reader, Owner owner);
  ~SupervisorLink();
  SupervisorLink(const SupervisorLink&) = delete;
  SupervisorLink& operator=(const SupervisorLink&) = delete;

  /// Look at fill() now. Any thread, also after stop(); one system call.
  void wake();
  /// End the thread, without sending anything more, and close the socket.
  void stop();
  /// In the child of a fork, where the thread does not exist: close the descriptors, so that the
  /// supervisor sees the parent's end. Async-signal-safe.
  void abandon_in_fork_child();

 private:
  void run();
  Result<Unit> send_some();
  Result<Unit> receive();
  Result<Unit> take_frames();

  // −1 once closed: their numbers are the program's then, and other threads may still wake() or
  // fork.
  std::atomic<int> fd_;
  std::atomic<int> wake_fd_;
  FrameReader reader_;
  Owner owner_;
  std::string out_;
  std::size_t sent_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace train::sdk
