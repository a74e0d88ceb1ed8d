#include "daemon/server/remote_start.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>

#include "lib/base/file_descriptor.h"
#include "lib/storage/own_folder.h"

namespace train {
namespace {

/// A pipe into which somebody has written.
struct Input {
  explicit Input(const std::string& text) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    reading.reset(ends[0]);
    writing.reset(ends[1]);
    EXPECT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  std::string rest() {
    writing.reset();
    std::array<char, 256> text{};
    const ssize_t size = ::read(reading.get(), text.data(), text.size());
    return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
  }
  FileDescriptor reading, writing;
};

const std::string kToken(64, 'a');

std::string refusal(const std::string& text, bool ends = false) {
  Input input(text);
  if (ends) input.writing.reset();
  const auto token = read_token_line(input.reading.get(), milliseconds(20));
  return token ? "" : token.error().describe();
}

TEST(TokenLine, IsTheFirstLineAndLeavesTheRest) {
  Input input(kToken + "\nthe rest");
  const auto token = read_token_line(input.reading.get(), seconds(10));
  ASSERT_TRUE(token);
  EXPECT_EQ(token->bytes(), kToken);
  EXPECT_EQ(input.rest(), "the rest");
}

TEST(TokenLine, IsRefusedIfItIsNoToken) {
  EXPECT_NE(refusal("short\n").find("too short"), std::string::npos);
  EXPECT_NE(refusal("\n").find("too short"), std::string::npos);
  EXPECT_NE(refusal(std::string(kTokenBytesMax + 1, 'a')).find("too long"), std::string::npos);
  EXPECT_NE(refusal(kToken, /*ends=*/true).find("ended before"), std::string::npos);
  EXPECT_NE(refusal(kToken).find("no token came"), std::string::npos);
}

TEST(RemoteStart, ListensOnTheAddressThatLeadsToSrun) {
  ::setenv("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1", 1);
  const auto listen = listen_towards_launcher();
  ASSERT_TRUE(listen);
  EXPECT_EQ(*listen, "127.0.0.1:0");
  for (const char* nonsense : {"", "a host", "1.2.3.4.5", "[::1]:80"}) {
    ::setenv("SLURM_LAUNCH_NODE_IPADDR", nonsense, 1);
    EXPECT_FALSE(listen_towards_launcher()) << nonsense;
  }
  ::unsetenv("SLURM_LAUNCH_NODE_IPADDR");
  EXPECT_FALSE(listen_towards_launcher());
}

TEST(RemoteStart, HasFoldersOfItsOwnForNobodyElse) {
  const auto folders = make_remote_folders(), others = make_remote_folders();
  ASSERT_TRUE(folders && others);
  EXPECT_NE(folders->runtime, others->runtime);
  for (const PrivateFolders& made : {*folders, *others}) {
    for (const std::string& folder : {made.runtime, made.spool}) {
      struct stat status {};
      ASSERT_EQ(::stat(folder.c_str(), &status), 0) << folder;
      EXPECT_EQ(status.st_mode & 07777, 0700u) << folder;
      EXPECT_TRUE(remove_own_folder(folder));
    }
  }
}

TEST(RemoteStart, AnnouncesItselfInOneLine) {
  EXPECT_EQ(announcement("n1", Endpoint::tcp("10.77.0.11", 4711)),
            "traind-announce 1 n1 10.77.0.11:4711\n");
  EXPECT_EQ(announcement("n1", Endpoint::tcp("fd00::1", 7070)),
            "traind-announce 1 n1 [fd00::1]:7070\n");
}

}  // namespace
}  // namespace train
