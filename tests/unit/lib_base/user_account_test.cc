#include "lib/base/user_account.h"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "lib/base/file_descriptor.h"

namespace train {
namespace {

TEST(UserAccount, IsFoundByNameAndByNumber) {
  const auto root = find_account("root");
  ASSERT_TRUE(root) << root.error().describe();
  EXPECT_EQ(root->uid, 0u);
  EXPECT_EQ(root->gid, 0u);
  EXPECT_FALSE(root->home.empty());
  EXPECT_NE(std::find(root->groups.begin(), root->groups.end(), 0u), root->groups.end());
  EXPECT_EQ(find_account(uid_t{0})->name, "root");
}

TEST(UserAccount, WhoIsNotThereIsNamed) {
  EXPECT_EQ(find_account("no-such-user-7").error(),
            (Error{Errc::NotFound, "there is no user no-such-user-7 on this machine",
                   "`getent passwd` lists those that it knows"}));
  EXPECT_EQ(find_account("").error().code, Errc::NotFound);
}

class ActAsTest : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
    other_ = find_account("nobody").value();
    char name[] = "/tmp/act_as.XXXXXX";
    folder_ = ::mkdtemp(name);
    ::chmod(folder_.c_str(), 0777);
    secret_ = folder_ + "/secret";
    const FileDescriptor file(::open(secret_.c_str(), O_WRONLY | O_CREAT, 0600));
  }
  void TearDown() override {
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }
  static bool can_read(const std::string& path) {
    return FileDescriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC)).get() >= 0;
  }
  UserAccount other_;
  std::string folder_, secret_;
};

TEST_F(ActAsTest, FilesAreUsedWithTheUsersRightsOnly) {
  {
    const ActAs other_user(other_);
    EXPECT_EQ(file_user(), other_.uid);
    EXPECT_FALSE(can_read(secret_));
    EXPECT_NE(::chown(secret_.c_str(), other_.uid, other_.gid), 0);
    ASSERT_EQ(::mkdir((folder_ + "/theirs").c_str(), 0700), 0);
  }
  struct stat made {};
  ASSERT_EQ(::stat((folder_ + "/theirs").c_str(), &made), 0);
  EXPECT_EQ(made.st_uid, other_.uid);
  EXPECT_EQ(made.st_gid, other_.gid);
}

TEST_F(ActAsTest, RootsGroupsOpenNothingForAnotherUser) {
  ASSERT_EQ(::chmod(secret_.c_str(), 0640), 0);
  const gid_t more[] = {0, 4};
  ASSERT_EQ(::setgroups(2, more), 0);
  {
    const ActAs other_user(other_);
    EXPECT_FALSE(can_read(secret_));
  }
  EXPECT_EQ(::getgroups(0, nullptr), 2);
}

TEST_F(ActAsTest, ItEndsWithItsScope) {
  { const ActAs other_user(other_); }
  EXPECT_EQ(file_user(), 0u);
  EXPECT_TRUE(can_read(secret_));
  EXPECT_EQ(::chown(secret_.c_str(), other_.uid, other_.gid), 0);
}

TEST_F(ActAsTest, OtherThreadsStayWhoTheyAre) {
  const ActAs other_user(other_);
  bool read = false;
  uid_t user = 1;
  std::thread([&] {
    // A new thread inherits its creator's user; make this one like a thread that existed before.
    const ActAs root(find_account("root").value());
    read = can_read(secret_);
    user = file_user();
  }).join();
  EXPECT_TRUE(read);
  EXPECT_EQ(user, 0u);
  EXPECT_EQ(file_user(), other_.uid);
  EXPECT_FALSE(can_read(secret_));
}

TEST_F(ActAsTest, NobodyIsOneself) {
  const ActAs nobody(std::nullopt);
  EXPECT_EQ(file_user(), 0u);
  EXPECT_TRUE(can_read(secret_));
}

}  // namespace
}  // namespace train
