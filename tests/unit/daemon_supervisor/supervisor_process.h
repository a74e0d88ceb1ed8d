// A real supervisor in its own process; the test acts as its traind and its launcher.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <functional>
#include <initializer_list>
#include <map>
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

  explicit SupervisorProcess(Attempt attempt = kAttempt);
  ~SupervisorProcess();
  SupervisorProcess(const SupervisorProcess&) = delete;
  SupervisorProcess& operator=(const SupervisorProcess&) = delete;

  const std::string& dir() const { return dir_; }  // a new folder, removed at the end
  void signal(int number) const;
  pid_t pid() const { return pid_; }
  /// Reconnect as a restarted traind.
  void reconnect();

  /// Return the base of what prepare() and start() send.
  PrepareAttempt& order() { return order_; }
  /// Variables of the job, beside PATH.
  std::map<std::string, std::string>& start_environment() { return environment_; }

  template <class Message>
  void send(const Message& message) {
    send_frames({encode(message, attempt_)});
  }
  /// Send two messages so that it reads both at once.
  template <class First, class Second>
  void send_together(const First& first, const Second& second) {
    send_frames({encode(first, attempt_), encode(second, attempt_)});
  }
  /// Tell it that a launcher of this generation is there.
  void attach(std::uint64_t generation);
  void prepare(int workers, bool standby = false, const std::string& storage_marker = "");
  /// Send PrepareAttempt and StartWorkers with an sh script per worker. Wait for their start.
  WorkersStarted start(const std::vector<std::string>& scripts);
  /// Do the same with one worker of another role than the one that trains, which runs an sh script.
  WorkersStarted start_other_role(const std::string& script);
  /// Send PrepareAttempt and StartWorkers for standby processes that run an sh script.
  void stand_by(int count, const std::string& script);

  /// Return the next frame. Fail the test if none comes.
  Frame next();
  /// Return the next frame of this kind, and skip those before it.
  template <class Message>
  Message wait_for() {
    for (;;) {
      const Frame frame = next();
      if (frame.type == Message::kType) return *decode<Message>(frame);
    }
  }
  /// Return all frames up to and including one of this type.
  std::vector<Frame> until(MessageType type);
  /// Return its exit code once it has ended, or nothing if it does not end.
  std::optional<int> wait_for_end();

 private:
  void send_frames(std::initializer_list<Frame> frames);
  StartWorkers program() const;

  const Attempt attempt_;
  std::string dir_;
  PrepareAttempt order_;
  std::map<std::string, std::string> environment_;
  pid_t pid_ = -1;
  int link_ = -1;
  FrameReader reader_;
};

/// Wait for the end of a process, even if its parent does not reap it. Return whether it ended.
bool ends(pid_t pid);

/// A test of a supervisor whose checkpoints wait on the disk of their node, which does not see the
/// run's folder.
class SupervisorWithData : public testing::Test {
 protected:
  /// Send a PrepareAttempt of generation 5 for one worker, changed by `add`. Return the answer.
  Prepared prepare(const std::function<void(PrepareAttempt&)>& add);
  std::string checkpoints() const { return supervisor_.dir() + "/data/checkpoints"; }
  /// Write a file, and create its folders.
  static void write(const std::string& path, const std::string& text);

  SupervisorProcess supervisor_;
};

}  // namespace train
