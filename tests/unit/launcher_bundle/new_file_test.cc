// A file that is not complete leaves nothing, however the process that writes it ends.
#include "launcher/bundle/new_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "lib/base/text_file.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

int refuse(const char*) {
  errno = EOPNOTSUPP;
  return -1;
}

class NewFileTest : public testing::Test {
 protected:
  NewFileTest() { fs::create_directories(folder_); }
  ~NewFileTest() override { fs::remove_all(folder_); }

  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_))
      found.push_back(entry.path().filename().string());
    return found;
  }
  /// Have a process begin the file and then get the signal. Return the signal that ended it; 0: it
  /// completed the file.
  int ends_by(int signal, NewFile::OpenNameless open, bool ignored = false) const {
    const pid_t pid = ::fork();
    if (pid == 0) {
      std::signal(signal, ignored ? SIG_IGN : SIG_DFL);
      auto file = NewFile::create(path_, open);
      if (!file || ::write(file->fd(), "text", 4) != 4) ::_exit(1);
      ::kill(::getpid(), signal);
      ::_exit(file->publish() ? 0 : 2);
    }
    int status = -1;
    ::waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
  }

  const std::string folder_ =
      fs::temp_directory_path().string() + "/new_file_test." + std::to_string(::getpid());
  const std::string path_ = folder_ + "/a";
};

TEST_F(NewFileTest, GetsItsNameOnceItIsComplete) {
  for (const auto open : {NewFile::open_nameless, refuse}) {
    {
      auto file = NewFile::create(path_, open);
      ASSERT_TRUE(file) << file.error().describe();
      ASSERT_EQ(::write(file->fd(), "text", 4), 4);
      EXPECT_FALSE(fs::exists(path_));
      ASSERT_TRUE(file->publish());
      EXPECT_EQ(read_text(path_), "text");
    }
    EXPECT_THAT(names(), ElementsAre("a"));
    struct stat info {};
    ASSERT_EQ(::stat(path_.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
    fs::remove(path_);
  }
}

TEST_F(NewFileTest, LeavesNothingWhereItIsNotPublished) {
  for (const auto open : {NewFile::open_nameless, refuse}) {
    EXPECT_TRUE(NewFile::create(path_, open));
    EXPECT_THAT(names(), IsEmpty());
  }
}

TEST_F(NewFileTest, ReplacesNoFile) {
  for (const auto open : {NewFile::open_nameless, refuse}) {
    auto file = NewFile::create(path_, open);
    ASSERT_TRUE(file);
    std::ofstream(path_) << "other";
    EXPECT_EQ(file->publish().error().code, Errc::AlreadyExists);
    EXPECT_EQ(read_text(path_), "other");
    fs::remove(path_);
  }
}

TEST_F(NewFileTest, WithoutANameLeavesNothingWhateverEndsTheProcess) {
  const int file = NewFile::open_nameless(folder_.c_str());
  if (file < 0) GTEST_SKIP() << "the file system of " << folder_ << " has no files without a name";
  ::close(file);
  for (const int signal : {SIGINT, SIGKILL}) {
    EXPECT_EQ(ends_by(signal, NewFile::open_nameless), signal);
    EXPECT_THAT(names(), IsEmpty());
  }
}

TEST_F(NewFileTest, ADraftIsRemovedByASignalThatEndsTheProcess) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    EXPECT_EQ(ends_by(signal, refuse), signal);
    EXPECT_THAT(names(), IsEmpty());
  }
}

TEST_F(NewFileTest, SignalsThatAreIgnoredRemainSo) {
  EXPECT_EQ(ends_by(SIGHUP, refuse, /*ignored=*/true), 0);
  EXPECT_THAT(names(), ElementsAre("a"));
}

}  // namespace
}  // namespace train
