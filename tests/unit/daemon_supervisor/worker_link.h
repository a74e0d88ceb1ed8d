// A supervisor with one worker whose program does nothing. The test speaks for it over a connection
// like the SDK's.
#pragma once

#include <optional>
#include <string>

#include "lib/base/file_descriptor.h"
#include "lib/wire/link_messages.h"
#include "tests/unit/daemon_supervisor/supervisor_process.h"

namespace train {

class WorkerLink : public testing::Test {
 protected:
  static constexpr Attempt kAttempt = SupervisorProcess::kAttempt;

  void SetUp() override;

  /// Send a message. Return false once the connection has ended.
  template <class Message>
  bool say(const Message& message) {
    return say_frame(encode(message, kAttempt));
  }
  /// Return the next message of this kind, or nothing if the connection ends or nothing comes.
  template <class Message>
  std::optional<Message> hear() {
    while (const auto frame = hear_frame()) {
      if (frame->type == Message::kType) return *decode<Message>(*frame);
    }
    return std::nullopt;
  }
  /// Connect as the worker, and say hello as a program of this build.
  void join(const std::string& build = "");
  /// Close the connection, and connect as the rank's next program. Return why it is refused.
  std::optional<Refused> join_again();
  void expect_ended_for(const std::string& why, const std::string& code = "resource_exhausted");

  SupervisorProcess supervisor_;
  FileDescriptor link_;
  std::string staging_;  // where it makes its checkpoints' files
  // Says its next hello:
  bool knows_memory_profiles_ = true, knows_calls_ = true;

  std::optional<Frame> hear_frame();

 private:
  void say_hello(const std::string& build);
  bool say_frame(const Frame& frame);

  FrameReader reader_;
};

}  // namespace train
