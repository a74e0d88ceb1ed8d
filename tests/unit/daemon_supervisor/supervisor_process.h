// A real supervisor in a process of its own; the test is its traind and its launcher.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"
#include "lib/wire/daemon_messages.h"

namespace train {

class SupervisorProcess {
 public:
  static constexpr Attempt kAttempt{3};

  SupervisorProcess();
  ~SupervisorProcess();
  SupervisorProcess(const SupervisorProcess&) = delete;
  SupervisorProcess& operator=(const SupervisorProcess&) = delete;

  const std::string& dir() const { return dir_; }  // a fresh folder, removed at the end
  void signal(int number) const;
  pid_t pid() const { return pid_; }
  /// As a traind that was started anew.
  void reconnect();

  /// What prepare() and start() ask for beside what they are told.
  PrepareAttempt& order() { return order_; }

  template <class Message>
  void send(const Message& message) {
    send_frame(encode(message, kAttempt));
  }
  /// A launcher of this generation is there.
  void attach(std::uint64_t generation);
  void prepare(int workers, bool standby = false, const std::string& storage_marker = "");
  /// PrepareAttempt and StartWorkers for one worker a script, by sh; until all have started.
  WorkersStarted start(const std::vector<std::string>& scripts);
  /// PrepareAttempt and StartWorkers for processes that wait, by sh.
  void stand_by(int count, const std::string& script);

  /// The next frame. Fails the test when none comes.
  Frame next();
  /// The next of this kind; what comes before it is passed over.
  template <class Message>
  Message wait_for() {
    for (;;) {
      const Frame frame = next();
      if (frame.type == Message::kType) return *decode<Message>(frame);
    }
  }
  /// All frames until one of this type, which is the last of them.
  std::vector<Frame> until(MessageType type);
  /// Its exit code, once it has ended; nothing when it does not.
  std::optional<int> wait_for_end();

 private:
  void send_frame(const Frame& frame);
  StartWorkers program() const;

  std::string dir_;
  PrepareAttempt order_;
  pid_t pid_ = -1;
  int link_ = -1;
  FrameReader reader_;
};

/// Whether a process ends, whether or not its parent looks. Waits for it.
bool ends(pid_t pid);

/// A test of a supervisor whose checkpoints wait on the disk of their node: the run's folder is not
/// to be seen there.
class SupervisorWithData : public testing::Test {
 protected:
  /// What it says to a PrepareAttempt of generation 5, of one worker, with this added.
  Prepared prepare(const std::function<void(PrepareAttempt&)>& add);
  std::string checkpoints() const { return supervisor_.dir() + "/data/checkpoints"; }
  /// A file, and the folders above it.
  static void write(const std::string& path, const std::string& text);

  SupervisorProcess supervisor_;
};

}  // namespace train
