#include "tests/unit/sdk_client/fake_supervisor.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "lib/wire/attempt_messages.h"
#include "lib/wire/reports.h"

namespace train {
namespace {
constexpr auto kWithin = std::chrono::seconds(20);
}

FakeSupervisor::FakeSupervisor(Welcome welcome) : welcome_(std::move(welcome)) {
  char name[] = "/tmp/sdk-test-XXXXXX";
  folder_ = ::mkdtemp(name);
  socket_ = folder_ + "/socket";
  if (welcome_.staging_dir.empty()) welcome_.staging_dir = folder_ + "/staging";
  std::filesystem::create_directories(welcome_.staging_dir);
  welcome_.protocol = kProtocolMax;
  listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, socket_.data(), socket_.size());
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(listener_, 1) != 0) {
    throw std::runtime_error(std::strerror(errno));
  }
  thread_ = std::thread([this] { run(); });
}

FakeSupervisor::~FakeSupervisor() {
  hang_up();
  ::shutdown(listener_, SHUT_RDWR);
  thread_.join();
  ::close(listener_);
  if (connection_ >= 0) ::close(connection_);
  std::filesystem::remove_all(folder_);
}

void FakeSupervisor::read(bool on) {
  {
    const std::lock_guard lock(mutex_);
    reads_ = on;
  }
  changed_.notify_all();
}

void FakeSupervisor::hang_up() {
  read(true);
  if (connection_ >= 0) ::shutdown(connection_, SHUT_RDWR);
}

void FakeSupervisor::run() {
  connection_ = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (connection_ < 0) return;
  FrameReader reader;
  char buffer[64 << 10];
  while (true) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return reads_; });
    }
    const ssize_t got = ::recv(connection_, buffer, sizeof buffer, 0);
    if (got <= 0) return;
    reader.feed(std::string_view(buffer, static_cast<std::size_t>(got)));
    while (auto frame = *reader.next()) {
      {
        const std::lock_guard lock(mutex_);
        frames_.push_back(*frame);
      }
      answer(*frame);
      changed_.notify_all();
    }
  }
}

void FakeSupervisor::answer(const Frame& frame) {
  if (frame.type == MessageType::WorkerHello) send(welcome_);
  if (frame.type == MessageType::ReportBatch && ack_reports_) {
    const auto batch = *decode<ReportBatch>(frame);
    AckReports acks;
    acks.acks.push_back(
        {.rank = batch.rank, .report_seq = batch.first_report_seq + batch.count - 1});
    send(acks);
  }
  if (frame.type == MessageType::CheckpointStaged && resolve_checkpoints_) {
    send(CheckpointOutcome{.checkpoint_seq = decode<CheckpointStaged>(frame)->checkpoint_seq,
                           .path = "/checkpoint",
                           .error = ""});
  }
  if (frame.type == MessageType::CollectiveJoin && answer_collectives_) {
    const auto join = *decode<CollectiveJoin>(frame);
    send(CollectiveResult{.sequence = join.sequence,
                          .parts = std::vector<std::string>(
                              static_cast<std::size_t>(welcome_.ranks.world_size), join.data),
                          .error = ""});
  }
  if (frame.type == MessageType::WorkerGoodbye && answer_goodbye_) send(GoodbyeAck{});
}

void FakeSupervisor::send_frame(const Frame& frame) {
  std::string bytes;
  append_frame(frame, bytes);
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t put = ::send(connection_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (put <= 0) return;
    sent += static_cast<std::size_t>(put);
  }
}

std::vector<Frame> FakeSupervisor::frames() const {
  const std::lock_guard lock(mutex_);
  return frames_;
}

std::size_t FakeSupervisor::count(MessageType type) const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count_if(frames_.begin(), frames_.end(),
                                                [&](const Frame& f) { return f.type == type; }));
}

std::vector<ReportRecord> FakeSupervisor::reports() const {
  std::vector<ReportRecord> all;
  for (const Frame& frame : frames()) {
    if (frame.type != MessageType::ReportBatch) continue;
    for (ReportRecord& record : *read_reports(*decode<ReportBatch>(frame), frame.attempt.value))
      all.push_back(std::move(record));
  }
  return all;
}

std::vector<ReportRecord> FakeSupervisor::wait_for_reports(std::size_t count) {
  std::unique_lock lock(mutex_);
  const auto enough = [&] {
    std::size_t there = 0;
    for (const Frame& frame : frames_) {
      if (frame.type == MessageType::ReportBatch) there += decode<ReportBatch>(frame)->count;
    }
    return there >= count;
  };
  if (!changed_.wait_for(lock, kWithin, enough))
    throw std::runtime_error("the reports did not come");
  lock.unlock();
  return reports();
}

std::vector<std::string> FakeSupervisor::frame_names() const {
  std::vector<std::string> names;
  for (const Frame& frame : frames()) names.push_back(to_string(frame.type));
  return names;
}

Frame FakeSupervisor::wait_for_frame(MessageType type, std::size_t index) {
  std::unique_lock lock(mutex_);
  Frame found;
  const auto there = [&] {
    std::size_t left = index;
    for (const Frame& frame : frames_) {
      if (frame.type != type) continue;
      if (left-- > 0) continue;
      found = frame;
      return true;
    }
    return false;
  };
  if (!changed_.wait_for(lock, kWithin, there))
    throw std::runtime_error("no " + to_string(type) + " came");
  return found;
}

}  // namespace train
