// The worker's end of its supervisor's Unix socket, on a thread of its own ("trainrun-sdk"). It
// moves bytes in and out; its owner decides what is sent and what a frame means
// (supervised_session.h). Plain POSIX, because user programs link this.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <thread>

#include "lib/base/file_descriptor.h"
#include "lib/wire/worker_messages.h"

namespace train::sdk {

/// A connection that has said hello and was welcomed.
struct JoinedSocket {
  int fd = -1;
  Welcome welcome;
  FrameReader reader;  // with what was received after the welcome
  FileDescriptor progress =
      FileDescriptor();  // came with the welcome: the page to mark progress in
};
/// Connect to the Unix socket at `path`. Fails with Unavailable when nobody answers there.
Result<int> connect_supervisor(const std::string& path);
/// Say hello on a connected socket, and wait for the welcome: ≤ 60 s, but without a limit when
/// `hello` is from a standby process. Closes `fd` when it fails.
Result<JoinedSocket> join_supervisor(int fd, const WorkerHello& hello);
/// Join the next run of the supervisor at `path`: wait for it without limit, also while the
/// supervisor begins anew. Nothing if there is no place for this process in it, or if the
/// supervisor has been away for 30 s.
Result<std::optional<JoinedSocket>> wait_for_next_run(const std::string& path,
                                                      const WorkerHello& hello);

class SupervisorLink {
 public:
  /// The link calls all three on its thread, while it holds none of its locks.
  struct Owner {
    /// Put the bytes to be sent next into the empty `out`. If there are none, the link sleeps until
    /// wake().
    std::function<void(std::string& out)> fill;
    /// Handle a frame. An Error closes the link.
    std::function<Result<Unit>(const Frame&)> on_frame;
    /// Note why the link ended. This is the last call; stop() does not cause it.
    std::function<void(const Error&)> on_closed;
  };

  SupervisorLink(int fd, FrameReader reader, Owner owner);
  ~SupervisorLink();
  SupervisorLink(const SupervisorLink&) = delete;
  SupervisorLink& operator=(const SupervisorLink&) = delete;

  /// Make the link call fill() now. Any thread, even after stop(). Costs one system call.
  void wake();
  /// Let the process's next link have what late calls of wake() write to; stop() comes before.
  void hand_on_wakes();
  /// End the thread without sending anything more, and close the socket.
  void stop();
  /// Close the descriptors in the child of a fork, where the thread does not exist, so that the
  /// supervisor notices when the parent ends. Async-signal-safe.
  void abandon_in_fork_child();

 private:
  void run();
  Result<Unit> send_some();
  Result<Unit> receive();
  Result<Unit> take_frames();

  // −1 once closed: the program may then reuse the numbers, and other threads may still wake() or
  // fork.
  std::atomic<int> fd_;
  std::atomic<int> wake_fd_;
  bool wakes_handed_on_ = false;
  FrameReader reader_;
  Owner owner_;
  std::string out_;
  std::size_t sent_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

}  // namespace train::sdk
