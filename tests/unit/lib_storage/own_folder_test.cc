// trainrun never removes what it did not make. Tests random trees with links, other owners, other
// modes and old dates, some of them marked, and checks that everything foreign is left.
#include "lib/storage/own_folder.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>

#include "lib/storage/posix_file_system.h"

namespace train {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534;

void give_to_nobody(const fs::path& path) {
  EXPECT_EQ(::lchown(path.c_str(), kNobody, kNobody), 0) << path;
}

class OwnFolder : public testing::Test {
 protected:
  OwnFolder() {
    char name[] = "/tmp/own_folder.XXXXXX";
    root_ = ::mkdtemp(name);
  }
  ~OwnFolder() override {
    ::umount((root_ / "own/mounted").c_str());
    fs::remove_all(root_);
  }
  std::string in(const std::string& name) const { return (root_ / name).string(); }
  static void write(const std::string& path) { std::ofstream(path) << path; }

  fs::path root_;
};

TEST_F(OwnFolder, IsMarkedAndPrivateAndNobodyElses) {
  ASSERT_TRUE(make_own_folder(in("own")));

  struct stat found {};
  ASSERT_EQ(::lstat(in("own").c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 07777, 0700u);
  EXPECT_TRUE(fs::is_regular_file(in("own/.made-by-trainrun")));
  EXPECT_TRUE(check_own_folder(in("own")));
  EXPECT_EQ(make_own_folder(in("own")).error().code, Errc::AlreadyExists);
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), fs::directory_iterator()), 1);
}

TEST_F(OwnFolder, ATakenNameIsNoOwnFolderWhateverIsThere) {
  fs::create_directory(in("folder"));
  write(in("file"));
  fs::create_directory_symlink("folder", in("link"));
  fs::create_directory_symlink("nowhere", in("dangling"));
  for (const char* name : {"folder", "file", "link", "dangling"}) {
    EXPECT_EQ(make_own_folder(in(name)).error().code, Errc::AlreadyExists) << name;
    EXPECT_FALSE(check_own_folder(in(name))) << name;
    EXPECT_FALSE(remove_own_folder(in(name))) << name;
    EXPECT_TRUE(fs::symlink_status(in(name)).type() != fs::file_type::not_found) << name;
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(root_), fs::directory_iterator()), 4);
}

TEST_F(OwnFolder, ANameThatCannotBeIsNotTaken) {
  const auto made = make_own_folder(in(std::string(256, 'x')));

  ASSERT_TRUE(made.has_error());
  EXPECT_NE(made.error().code, Errc::AlreadyExists);
  EXPECT_TRUE(made.error().message.ends_with("': File name too long")) << made.error().message;
  EXPECT_TRUE(fs::is_empty(root_));
}

TEST_F(OwnFolder, AFolderThatOthersMayWriteOrOwnIsRefused) {
  ASSERT_TRUE(make_own_folder(in("own")));
  for (const mode_t mode : {0770u, 0702u, 0777u}) {
    ::chmod(in("own").c_str(), mode);
    EXPECT_EQ(check_private_folder(in("own")).error().code, Errc::Permission);
    EXPECT_FALSE(remove_own_folder(in("own")));
  }
  ::chmod(in("own").c_str(), 0700);
  EXPECT_TRUE(check_private_folder(in("own")));
  if (::geteuid() != 0) GTEST_SKIP() << "SKIPPED: only root can give a folder to another user";
  ASSERT_EQ(::chown(in("own").c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(check_private_folder(in("own")).error().code, Errc::Permission);
  EXPECT_FALSE(make_private_folder(in("own")));
  EXPECT_FALSE(remove_own_folder(in("own")));
  ASSERT_EQ(::chown(in("own").c_str(), 0, 0), 0);
  ASSERT_EQ(::chown(in("own/.made-by-trainrun").c_str(), kNobody, kNobody), 0);
  EXPECT_FALSE(remove_own_folder(in("own")));
  EXPECT_TRUE(fs::exists(in("own")));
}

TEST_F(OwnFolder, AMarkThatIsALinkIsNone) {
  fs::create_directory(in("other"));
  ::chmod(in("other").c_str(), 0700);
  write(in("somebody's"));
  fs::create_symlink(in("somebody's"), in("other/.made-by-trainrun"));
  EXPECT_FALSE(remove_own_folder(in("other")));
  EXPECT_TRUE(fs::exists(in("other")));
}

TEST_F(OwnFolder, IsRemovedWithoutFollowingLinks) {
  fs::create_directories(in("precious/deep"));
  write(in("precious/deep/thesis"));
  ASSERT_TRUE(make_own_folder(in("own")));
  fs::create_directories(in("own/a/b"));
  write(in("own/a/b/file"));
  fs::create_directory_symlink(in("precious"), in("own/a/link"));
  fs::create_symlink(in("precious/deep/thesis"), in("own/a/b/link"));
  ASSERT_EQ(::mkfifo(in("own/fifo").c_str(), 0600), 0);

  const auto removed = remove_own_folder(in("own"));

  ASSERT_TRUE(removed) << removed.error().describe();
  EXPECT_TRUE(*removed);
  EXPECT_FALSE(fs::exists(in("own")));
  EXPECT_TRUE(fs::exists(in("precious/deep/thesis")));
  EXPECT_FALSE(*remove_own_folder(in("own")));  // nothing is there
}

/// Run `what` in a process of another user, who must make its own folder. Return its exit code.
int as_nobody(const std::function<int()>& what) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::setgid(kNobody) == 0 && ::setuid(kNobody) == 0 ? what() : 100);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 101;
}

// Root may write anywhere, so the test is another user.
TEST_F(OwnFolder, FoldersThatTheirOwnerMayNotWriteAreRemoved) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  give_to_nobody(root_);
  EXPECT_EQ(as_nobody([&] {
              if (!make_own_folder(in("own"))) return 1;
              fs::create_directories(in("own/a/b"));
              write(in("own/a/b/file"));
              for (const char* name : {"own/a/b", "own/a"}) ::chmod(in(name).c_str(), 0555);
              return remove_own_folder(in("own")) ? 0 : 2;
            }),
            0);
  EXPECT_FALSE(fs::exists(in("own")));
}

TEST_F(OwnFolder, WhatCannotBeRemovedIsSaidAndTheMarkStays) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root";
  ASSERT_TRUE(make_own_folder(in("own")));
  fs::create_directories(in("own/sticky"));
  write(in("own/sticky/file"));
  ASSERT_EQ(::chmod(in("own/sticky").c_str(), 01777), 0);
  ASSERT_EQ(::chmod(root_.c_str(), 0755), 0);
  ASSERT_EQ(::chmod(in("own").c_str(), 0755), 0);

  EXPECT_EQ(as_nobody([&] {
              const auto removed = remove_folder_tree(in("own/sticky"));
              const bool said =
                  removed.error().message.find("Operation not permitted") != std::string::npos;
              return removed.error().code == Errc::Permission && said ? 0 : 1;
            }),
            0);
}

TEST_F(OwnFolder, TreesDeeperThanDescriptorsAreRemoved) {
  ASSERT_TRUE(make_own_folder(in("own")));
  const int start = ::open(".", O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::chdir(in("own").c_str()), 0);
  for (int depth = 0; depth < 3000; ++depth) {
    ASSERT_EQ(::mkdir("d", 0700), 0);
    ASSERT_EQ(::chdir("d"), 0);
  }
  ASSERT_EQ(::fchdir(start), 0);
  ::close(start);

  const auto removed = remove_own_folder(in("own"));

  ASSERT_TRUE(removed) << removed.error().describe();
  EXPECT_FALSE(fs::exists(in("own")));
}

TEST_F(OwnFolder, AnotherFileSystemIsNotEntered) {
  ASSERT_TRUE(make_own_folder(in("own")));
  fs::create_directory(in("own/mounted"));
  if (::mount("none", in("own/mounted").c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "SKIPPED: no right to mount";
  write(in("own/mounted/file"));

  EXPECT_EQ(remove_own_folder(in("own")).error().code, Errc::Io);

  EXPECT_TRUE(fs::exists(in("own/mounted/file")));
  EXPECT_TRUE(check_own_folder(in("own")));  // the removal can be finished later
}

/// Return whether `check` holds in a process with `folder` as the root of the file system, so that
/// a bug could remove nothing else.
bool holds_below(const std::string& folder, const std::function<bool()>& check) {
  const pid_t child = ::fork();
  if (child == 0) {
    const bool inside = (::geteuid() == 0 || ::unshare(CLONE_NEWUSER) == 0) &&
                        ::chroot(folder.c_str()) == 0 && ::chdir("/") == 0;
    ::_exit(inside && check() ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST_F(OwnFolder, NeitherTheRootNorAHomeNorALinkIsATree) {
  const std::string home = in("home");
  fs::create_directory(home);
  write(home + "/thesis");
  fs::create_directory_symlink("home", in("link"));
  const char* before = std::getenv("HOME");
  const std::string kept = before != nullptr ? before : "";
  ::setenv("HOME", home.c_str(), 1);
  EXPECT_EQ(remove_folder_tree(home).error().code, Errc::Permission);
  ::setenv("HOME", kept.c_str(), 1);
  for (const char* root : {"/", "/home/../", "/home/.."})
    EXPECT_TRUE(holds_below(in(""), [&] {
      const auto removed = remove_folder_tree(root);
      return removed.has_error() && removed.error().code == Errc::Permission;
    })) << root;
  PosixFileSystem files;
  EXPECT_EQ(remove_tree(files, in("link")).error().code, Errc::Permission);
  EXPECT_TRUE(fs::exists(home + "/thesis"));
}

/// Map the path of everything below to a file's text, a link's target, or "" for a folder.
std::map<std::string, std::string> listing(const fs::path& root) {
  std::map<std::string, std::string> all;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    std::string text;
    if (entry.is_symlink()) {
      text = fs::read_symlink(entry.path());
    } else if (entry.is_regular_file()) {
      std::ifstream file(entry.path());
      text.assign(std::istreambuf_iterator<char>(file), {});
    }
    all[entry.path()] = text;
  }
  return all;
}

TEST_F(OwnFolder, OfRandomTreesNothingForeignIsEverGone) {
  std::mt19937 random(1);  // a fixed seed: the same trees each time
  const auto chance = [&](int of) { return static_cast<int>(random() % of); };
  const bool root = ::geteuid() == 0;
  for (int round = 0; round < 200; ++round) {
    const fs::path world = root_ / std::to_string(round);
    const fs::path foreign = world / "foreign", ours = world / "ours";
    fs::create_directories(foreign);
    // These folders each lack a different property of an own folder.
    std::vector<fs::path> asked;
    for (int i = 0; i < 1 + chance(4); ++i) {
      const fs::path folder = foreign / ("f" + std::to_string(i));
      fs::create_directories(folder / "checkpoints" / "deep");
      write(folder / "checkpoints" / "deep" / "file");
      ::chmod(folder.c_str(), 0700);
      const int lacks = chance(5);
      const fs::path mark = folder / std::string(kOwnFolderMarker);
      if (lacks == 1) fs::create_symlink(folder / "checkpoints/deep/file", mark);
      if (lacks == 2) fs::create_directory(mark);
      if (lacks >= 3) write(mark);
      if (lacks == 3) ::chmod(folder.c_str(), 0777);
      if (lacks == 4 && root) give_to_nobody(chance(2) ? folder : mark);
      if (lacks == 4 && !root) ::chmod(mark.c_str(), 0666);
      const timespec old[2] = {{1000, 0}, {1000, 0}};
      ::utimensat(AT_FDCWD, (folder / "checkpoints").c_str(), old, 0);
      asked.push_back(folder);
      fs::create_directory_symlink(folder, foreign / ("link" + std::to_string(i)));
      asked.push_back(foreign / ("link" + std::to_string(i)));
    }
    const auto before = listing(foreign);
    // Make one of ours, with links to them everywhere.
    ASSERT_TRUE(make_own_folder(ours));
    fs::path at = ours;
    for (int i = 0; i < 1 + chance(20); ++i) {
      const fs::path next = at / ("n" + std::to_string(i));
      const int kind = chance(4);
      if (kind == 0) {
        fs::create_directory(next);
        at = next;
      } else if (kind == 1) {
        fs::create_directory_symlink(
            asked[static_cast<std::size_t>(chance(static_cast<int>(asked.size())))], next);
      } else if (kind == 2) {
        fs::create_directory_symlink(chance(2) ? "/" : "../../..", next);
      } else {
        write(next);
        if (root) give_to_nobody(next);
      }
    }

    for (const fs::path& one : asked) EXPECT_FALSE(remove_own_folder(one)) << one;
    EXPECT_TRUE(remove_own_folder(ours));

    EXPECT_FALSE(fs::exists(fs::symlink_status(ours))) << "round " << round;
    EXPECT_EQ(listing(foreign), before) << "round " << round;
  }
}

}  // namespace
}  // namespace train
