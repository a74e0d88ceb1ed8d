#include "lib/transfer/open_beneath.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace train {
namespace {

class OpenBeneath : public testing::Test {
 protected:
  OpenBeneath() {
    char name[] = "/tmp/beneath.XXXXXX";
    root_ = ::mkdtemp(name);
    std::filesystem::create_directories(root_ / "run/part/sub");
    std::ofstream(root_ / "run/part/sub/state.bin") << "0123456789";
    std::ofstream(root_ / "secret") << "not yours";
  }
  ~OpenBeneath() override { std::filesystem::remove_all(root_); }

  std::string base() const { return root_ / "run"; }
  Errc refused(const std::string& path) const {
    const auto opened = open_beneath(base(), path);
    return opened ? Errc::Internal : opened.error().code;
  }

  std::filesystem::path root_;
};

TEST_F(OpenBeneath, ReadsPiecesOfAFileAndSaysHowLongItIs) {
  const auto middle = read_beneath(base(), "part/sub/state.bin", 3, 4);
  const auto end = read_beneath(base(), "part/sub/state.bin", 8, 4);
  const auto behind = read_beneath(base(), "part/sub/state.bin", 99, 4);

  ASSERT_TRUE(middle && end && behind);
  EXPECT_EQ(middle->data, "3456");
  EXPECT_EQ(middle->size, 10u);
  EXPECT_EQ(end->data, "89");
  EXPECT_EQ(behind->data, "");
  EXPECT_EQ(behind->size, 10u);
}

TEST_F(OpenBeneath, LeadsNowhereElse) {
  EXPECT_EQ(refused("../secret"), Errc::InvalidArgument);
  EXPECT_EQ(refused("part/../../secret"), Errc::InvalidArgument);
  EXPECT_EQ(refused("/etc/passwd"), Errc::InvalidArgument);
  EXPECT_EQ(refused("part//sub/state.bin"), Errc::InvalidArgument);
  EXPECT_EQ(refused("./part"), Errc::InvalidArgument);
  EXPECT_EQ(refused(""), Errc::InvalidArgument);
}

TEST_F(OpenBeneath, FollowsNoLinkOnTheWayAndNoneAtTheEnd) {
  std::filesystem::create_symlink(root_ / "secret", root_ / "run/part/link");
  std::filesystem::create_directory_symlink(root_, root_ / "run/up");

  EXPECT_EQ(refused("part/link"), Errc::InvalidArgument);
  EXPECT_EQ(refused("up/secret"), Errc::InvalidArgument);
}

TEST_F(OpenBeneath, HandsOutPlainFilesOnly) {
  ASSERT_EQ(::mkfifo((root_ / "run/pipe").c_str(), 0600), 0);

  EXPECT_EQ(refused("pipe"), Errc::InvalidArgument);
  EXPECT_EQ(refused("part/sub"), Errc::InvalidArgument);
  EXPECT_EQ(refused("part/other"), Errc::NotFound);
}

}  // namespace
}  // namespace train
