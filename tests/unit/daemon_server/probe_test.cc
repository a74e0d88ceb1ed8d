// Probes of several "nodes", each on a thread of its own, over loopback.
#include "daemon/server/probe.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

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

TEST_F(ProbeTest, TellStrangersNothing) {
  ProbeOptions stranger = of(1, 2);
  stranger.mark = "another-run";
  stranger.limit = seconds(1);
  ProbeOptions first = of(0, 2);
  first.limit = seconds(2);
  const auto reports = run({first, stranger});
  EXPECT_THAT(reports[0].absent, ElementsAre(1));
  EXPECT_NE(reports[1].error, "");
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
