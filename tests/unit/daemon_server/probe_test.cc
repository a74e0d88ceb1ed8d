// Probes of several "nodes", each on a thread of its own, over loopback.
#include "daemon/server/probe.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "daemon/server/storage_mark.h"
#include "lib/base/file_descriptor.h"

namespace train {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Bind a port as a supervisor holds the master port, without listening.
class HeldPort {
 public:
  HeldPort() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int yes = 1;
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    EXPECT_EQ(::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port = ntohs(address.sin_port);
  }
  std::uint16_t port = 0;

 private:
  FileDescriptor fd_;
};

class ProbeTest : public testing::Test {
 protected:
  ProbeTest() {
    char name[] = "/tmp/probe_test.XXXXXX";
    folder_ = ::mkdtemp(name);
    std::filesystem::create_directory(folder_ + "/a");
    std::filesystem::create_directory(folder_ + "/b");
  }
  ~ProbeTest() override { std::filesystem::remove_all(folder_); }

  ProbeOptions of(int rank, int world_size) const {
    return {.rank = rank,
            .world_size = world_size,
            .master_addr = "127.0.0.1",
            .master_port = port_.port,
            .storage = folder_ + "/a",
            .mark = "check-1",
            .limit = seconds(10)};
  }
  static std::vector<ProbeReport> run(const std::vector<ProbeOptions>& all) {
    std::vector<ProbeReport> reports(all.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < all.size(); ++i)
      threads.emplace_back([&, i] { reports[i] = probe(all[i]); });
    for (std::thread& thread : threads) thread.join();
    return reports;
  }

  HeldPort port_;
  std::string folder_;
};

TEST_F(ProbeTest, ThatMeetTheOthersReachThemAndSeeOneStorage) {
  for (const ProbeReport& report : run({of(0, 3), of(1, 3), of(2, 3)})) {
    EXPECT_EQ(report.error, "");
    EXPECT_THAT(report.absent, IsEmpty());
    EXPECT_THAT(report.unreachable, IsEmpty());
    EXPECT_THAT(report.storage_missing, IsEmpty());
    EXPECT_EQ(report.storage_error, "");
    ASSERT_TRUE(report.clock_ms && report.clock_within_ms);
    EXPECT_LE(std::abs(*report.clock_ms), *report.clock_within_ms + 1);  // it is one clock
    EXPECT_TRUE(report.sum_ms);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/a"));
}

TEST_F(ProbeTest, NameThoseThatDoNotCome) {
  std::vector<ProbeOptions> all{of(0, 3), of(1, 3)};
  for (ProbeOptions& options : all) options.limit = seconds(2);
  for (const ProbeReport& report : run(all)) {
    EXPECT_EQ(report.error, "");
    EXPECT_THAT(report.absent, ElementsAre(2));
    EXPECT_THAT(report.unreachable, IsEmpty());
    EXPECT_TRUE(report.sum_ms);
  }
}

TEST_F(ProbeTest, SayWhenTheyMeetNobody) {
  ProbeOptions alone = of(1, 2);
  alone.limit = milliseconds(200);
  const ProbeReport report = probe(alone);
  EXPECT_EQ(report.error,
            "rank 0 at 127.0.0.1:" + std::to_string(port_.port) + ": Connection refused");
}

TEST_F(ProbeTest, NoticeThatTheStorageIsAnotherOrCannotBeWritten) {
  ProbeOptions other = of(1, 3), none = of(2, 3);
  other.storage = folder_ + "/b";
  none.storage = folder_ + "/nowhere";
  const auto reports = run({of(0, 3), other, none});
  EXPECT_THAT(reports[0].storage_missing, ElementsAre(1));
  EXPECT_THAT(reports[1].storage_missing, ElementsAre(0));
  EXPECT_EQ(reports[2].storage_error, "making a folder: No such file or directory");
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/a"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/b"));
}

/// A connection to rank 0 by hand.
class ByHand {
 public:
  explicit ByHand(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(port);
    for (;;) {  // until it listens
      fd_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (::connect(fd_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
        return;
      std::this_thread::yield();
    }
  }
  void say(const std::string& line) const {
    const std::string text = line + "\n";
    EXPECT_EQ(::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(text.size()));
  }
  /// Return the next line; "" if there is none.
  std::string hear() const {
    std::string line;
    for (char c = 0; ::read(fd_.get(), &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }

 private:
  FileDescriptor fd_;
};

TEST_F(ProbeTest, TellStrangersNothing) {
  ProbeReport report;
  ProbeOptions first = of(0, 2);
  first.limit = seconds(2);
  std::thread rank0([&] { report = probe(first); });
  const ByHand stranger(port_.port);
  stranger.say("trainrun-probe another-run 1");
  EXPECT_EQ(stranger.hear(), "");
  rank0.join();
  EXPECT_THAT(report.absent, ElementsAre(1));
}

TEST_F(ProbeTest, AWrongSumIsNone) {
  ProbeOptions first = of(0, 2);
  first.storage = "";
  ProbeReport report;
  std::thread rank0([&] { report = probe(first); });
  const ByHand other(port_.port);
  other.say("trainrun-probe check-1 1");
  EXPECT_NE(other.hear(), "");
  for (const char* line : {"1", "", "", "7"}) {  // port, table, end of connecting, number
    other.say(line);
    EXPECT_NE(other.hear(), "") << line;
  }
  rank0.join();
  EXPECT_EQ(report.error, "");
  EXPECT_THAT(report.unreachable, ElementsAre(1));
  EXPECT_FALSE(report.sum_ms);
}

// Each answers only once all have been asked.
TEST_F(ProbeTest, TryManyAtOnce) {
  constexpr int kOthers = 60;
  const FileDescriptor listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  socklen_t size = sizeof address;
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(listener.get(), kOthers), 0);
  ASSERT_EQ(::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);

  ProbeOptions first = of(0, kOthers + 1);
  first.limit = seconds(60);
  first.storage = "";
  ProbeReport report;
  std::thread rank0([&] { report = probe(first); });
  {
    std::vector<std::unique_ptr<ByHand>> others;
    for (int rank = 1; rank <= kOthers; ++rank) {
      others.push_back(std::make_unique<ByHand>(port_.port));
      others.back()->say("trainrun-probe check-1 " + std::to_string(rank));
      EXPECT_NE(others.back()->hear(), "");
    }
    for (const std::string& line : {std::to_string(ntohs(address.sin_port)), std::string()}) {
      for (const auto& other : others) other->say(line);
      for (const auto& other : others) EXPECT_NE(other->hear(), "");
    }
    std::vector<FileDescriptor> asked;
    for (int i = 0; i < kOthers; ++i)
      asked.emplace_back(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    for (const FileDescriptor& fd : asked) EXPECT_EQ(::send(fd.get(), "here\n", 5, 0), 5);
    for (const auto& other : others) other->say("");
    for (const auto& other : others) EXPECT_NE(other->hear(), "");
  }
  rank0.join();
  EXPECT_EQ(report.error, "");
  EXPECT_THAT(report.unreachable, IsEmpty());
}

TEST_F(ProbeTest, MeetInTheLargestGroup) {
  std::vector<ProbeOptions> all;
  for (int rank = 0; rank < 36; ++rank) {
    all.push_back(of(rank, 16'384));
    all.back().limit = seconds(4);
    all.back().storage = "";
  }
  for (const ProbeReport& report : run(all)) {
    EXPECT_EQ(report.error, "");
    EXPECT_EQ(report.absent.size(), 16'384u - 36u);
    EXPECT_THAT(report.unreachable, IsEmpty());
    EXPECT_LT(to_json(report).size(), 4096u) << "a line of a worker has 8 KiB";
    EXPECT_NE(to_json(report).find(R"("absent_in_all":16348)"), std::string::npos);
  }
}

TEST_F(ProbeTest, LeaveAloneWhatTheyHaveNotMade) {
  ProbeOptions first = of(0, 1);
  const std::string theirs = folder_ + "/a/.check-check-1/0";
  std::filesystem::create_directory(folder_ + "/a/.check-check-1");
  std::ofstream(theirs) << "theirs";
  EXPECT_EQ(probe(first).storage_error, "making a file: File exists");
  EXPECT_TRUE(std::filesystem::exists(theirs));
}

TEST_F(ProbeTest, LeaveNoFileHoweverTheyEnd) {
  {
    StorageMark mark(folder_ + "/a", "check-1", 0);
    EXPECT_EQ(mark.write(), "");
    EXPECT_TRUE(mark.sees(0));
    EXPECT_FALSE(mark.sees(1));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/a"));
}

TEST(ProbeReports, AreOneLine) {
  ProbeReport report{.rank = 1, .unreachable = {0, 2}, .clock_ms = 0.5, .clock_within_ms = 0.25};
  report.storage_error = "a\"b\n";
  EXPECT_EQ(to_json(report),
            R"({"probe":1,"rank":1,"absent":[],"unreachable":[0,2],"clock_ms":0.5,)"
            R"("clock_within_ms":0.25,"locked_memory":-1,"storage_error":"a\"b\n",)"
            R"("storage_missing":[]})");
}

}  // namespace
}  // namespace train
