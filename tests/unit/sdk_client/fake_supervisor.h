// Acts as the other end of a worker's socket in tests: welcomes the worker, records every frame,
// and answers as the test tells it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "lib/base/metrics.h"
#include "lib/wire/codec.h"
#include "lib/wire/worker_messages.h"

namespace train {

class FakeSupervisor {
 public:
  /// Listens on its own Unix socket; accepts one worker.
  explicit FakeSupervisor(Welcome welcome);
  ~FakeSupervisor();

  const std::string& socket() const { return socket_; }
  const std::string& folder() const {
    return folder_;
  }  // a new one, removed at the end; it contains the staging folder

  void read(bool on);  // off: at most one more read
  void ack_reports(bool on) { ack_reports_ = on; }
  void answer_goodbye(bool on) { answer_goodbye_ = on; }
  void answer_collectives(bool on) { answer_collectives_ = on; }  // as if for the only rank
  void resolve_checkpoints(bool on) { resolve_checkpoints_ = on; }

  template <class Message>
  void send(const Message& message) {
    send_frame(encode(message, Attempt{welcome_.attempt}));
  }
  void hang_up();

  /// Return the index-th frame of this kind once it is there; fail the test after 20 s.
  template <class Message>
  Message wait_for(std::size_t index = 0) {
    return *decode<Message>(wait_for_frame(Message::kType, index));
  }
  std::vector<Frame> frames() const;
  std::size_t count(MessageType type) const;
  /// Return all reports so far, in the order of arrival.
  std::vector<ReportRecord> reports() const;
  std::vector<ReportRecord> wait_for_reports(std::size_t count);
  /// Return the names: "ReportBatch", "CheckpointStaged", …
  std::vector<std::string> frame_names() const;

 private:
  void run();
  void answer(const Frame& frame);
  void send_frame(const Frame& frame);
  Frame wait_for_frame(MessageType type, std::size_t index);

  std::string folder_, socket_;
  Welcome welcome_;
  int listener_ = -1;
  std::atomic<int> connection_ = -1;
  std::atomic<bool> ack_reports_ = true, answer_goodbye_ = true, answer_collectives_ = false,
                    resolve_checkpoints_ = true;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Frame> frames_;
  bool reads_ = true;
  std::thread thread_;
};

}  // namespace train
