// A worker's process that waits for another run, with fake supervisors.
#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <future>
#include <memory>

#include "lib/wire/link_messages.h"
#include "sdk/client/served_calls.h"
#include "tests/unit/sdk_client/supervised_worker.h"

namespace train::sdk {
namespace {

Welcome keeping() {
  Welcome w = welcome();
  w.run.keeps_workers = true;
  return w;
}

TEST(Stay, IsSaidWithTheGoodbyeAndOnlyOnce) {
  Worker worker(keeping());
  worker.session->report({{"loss", 1}}, nullptr);
  EXPECT_TRUE(worker.session->finish_and_stay());
  EXPECT_TRUE(worker.supervisor.wait_for<WorkerGoodbye>().stays);
  EXPECT_EQ(worker.supervisor.reports().size(), 1u) << "they are handed over first";
  EXPECT_FALSE(worker.session->finish_and_stay()) << "that goodbye was another's";
  EXPECT_EQ(worker.supervisor.count(MessageType::WorkerGoodbye), 1u);
  EXPECT_EQ(failure_of([&] {
              worker.session->report({{"loss", 1}}, nullptr);
            }),
            "unavailable: this worker has said goodbye: the loop is over");
}

TEST(Stay, NobodyDoesInARunThatKeepsNone) {
  Worker worker;
  EXPECT_FALSE(worker.session->finish_and_stay());
  EXPECT_FALSE(worker.supervisor.wait_for<WorkerGoodbye>().stays);
}

TEST(Stay, AfterAFinishThereIsNothingToWaitFor) {
  Worker worker(keeping());
  worker.session->finish();
  EXPECT_FALSE(worker.session->finish_and_stay());
}

TEST(Stay, TheSessionKeepsNothingOfTheProgram) {
  Worker worker(keeping());
  const auto model = std::make_shared<int>(0);
  worker.session->on_stop([model] { return writing("state"); });
  EXPECT_EQ(model.use_count(), 2);
  EXPECT_TRUE(worker.session->finish_and_stay());
  EXPECT_EQ(model.use_count(), 1);
}

std::size_t open_files() {
  std::size_t count = 0;
  DIR* folder = ::opendir("/proc/self/fd");
  while (::readdir(folder) != nullptr) ++count;
  ::closedir(folder);
  return count;
}

// A process does many runs, and its old sessions stay, as threads may still call them.
TEST(Stay, EndedSessionsHoldNoFiles) {
  std::vector<std::unique_ptr<Worker>> ended;
  std::vector<std::size_t> counts;
  for (int run = 0; run < 4; ++run) {
    auto& worker = ended.emplace_back(std::make_unique<Worker>(keeping()));
    const Checkpoint checkpoint = writing("state");
    worker->session->report({{"loss", 1}}, &checkpoint);
    ASSERT_TRUE(worker->session->finish_and_stay());
    worker->supervisor.hang_up();
    counts.push_back(open_files());
  }
  // Each fake supervisor has its listening socket.
  EXPECT_LE(counts[3] - counts[1], 4u);
  static std::vector<SupervisedSession*> kept;  // LeakSanitizer looks for them
  for (auto& worker : ended) kept.push_back(worker->session.release());
}

// ---- waiting for the run

WorkerHello waiting_hello() {
  WorkerHello hello;
  hello.rank = 3;
  hello.stays = true;
  return hello;
}

/// A supervisor's socket, at a path of its own.
class Door {
 public:
  explicit Door(std::string path) : path_(std::move(path)) {
    ::unlink(path_.c_str());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, path_.size());
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_, 4), 0);
  }
  ~Door() {
    ::close(listener_);
    ::unlink(path_.c_str());
  }
  /// Return the next connection, and the hello that came over it.
  std::pair<int, WorkerHello> next() const {
    const int fd = ::accept(listener_, nullptr, nullptr);
    FrameReader reader;
    for (;;) {
      auto frame = reader.next();
      if (frame && *frame) return {fd, *decode<WorkerHello>(**frame)};
      char bytes[1024];
      const ssize_t got = ::recv(fd, bytes, sizeof bytes, 0);
      if (got <= 0) return {fd, {}};
      reader.feed({bytes, static_cast<std::size_t>(got)});
    }
  }

 private:
  std::string path_;
  int listener_ = -1;
};

template <class Message>
void answer(int fd, const Message& message) {
  std::string bytes;
  append_frame(encode(message, Attempt{0}), bytes);
  EXPECT_EQ(::send(fd, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
}

class NextRun : public testing::Test {
 protected:
  const std::string path_ = testing::TempDir() + "/stay-" + std::to_string(::getpid()) + ".sock";
  std::future<Result<std::optional<JoinedSocket>>> wait() const {
    return std::async(std::launch::async,
                      [path = path_] { return wait_for_next_run(path, waiting_hello()); });
  }
};

// The supervisor begins anew: its socket goes, and comes back.
TEST_F(NextRun, IsWaitedForOverASupervisorThatBeginsAnew) {
  auto door = std::make_unique<Door>(path_);
  auto joined = wait();
  const auto [first, hello] = door->next();
  EXPECT_TRUE(hello.stays);
  EXPECT_EQ(hello.rank, 3);
  EXPECT_EQ(hello.standby, -1);
  door.reset();
  ::close(first);
  door = std::make_unique<Door>(path_);
  const auto [second, again] = door->next();
  EXPECT_TRUE(again.stays);
  Welcome next;
  next.protocol = kProtocolMax;
  next.run.run_name = "next";
  answer(second, next);
  const auto result = joined.get();
  ASSERT_TRUE(result) << result.error().describe();
  ASSERT_TRUE(*result);
  EXPECT_EQ((*result)->welcome.run.run_name, "next");
  ::close((*result)->fd);
  ::close(second);
}

TEST_F(NextRun, IsNoneIfThereIsNoPlaceInIt) {
  const Door door(path_);
  auto joined = wait();
  const auto [fd, hello] = door.next();
  answer(fd, Refused{"unavailable", "no rank is left for this process", ""});
  const auto result = joined.get();
  ASSERT_TRUE(result);
  EXPECT_FALSE(*result);
  ::close(fd);
}

TEST_F(NextRun, OfAnotherProtocolIsAnError) {
  const Door door(path_);
  auto joined = wait();
  const auto [fd, hello] = door.next();
  Welcome next;
  next.protocol = kProtocolMax + 1;
  answer(fd, next);
  const auto result = joined.get();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Errc::Protocol);
  ::close(fd);
}

}  // namespace
}  // namespace train::sdk
