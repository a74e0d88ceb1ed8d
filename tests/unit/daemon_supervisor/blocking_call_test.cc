// In which system call on a file a process waits.
#include "daemon/supervisor/processes/blocking_call.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/text_file.h"
#include "tests/fakes/eventually.h"

namespace train {
namespace {

constexpr const char* kMounts =
    "21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
    "36 21 0:31 / /data rw,nosuid shared:5 master:1 - nfs4 server:/data rw\n"
    "40 36 0:39 / /data/mnt rw - fuse stuck rw\n"
    "half a line\n";

TEST(MountOf, IsTheLongestThatHoldsThePath) {
  EXPECT_EQ(mount_of(kMounts, "/data/mnt/x"), "fuse at /data/mnt");
  EXPECT_EQ(mount_of(kMounts, "/data/mnt"), "fuse at /data/mnt");
  EXPECT_EQ(mount_of(kMounts, "/data/mnt2"), "nfs4 at /data");
  EXPECT_EQ(mount_of(kMounts, "/database"), "ext4 at /");
  EXPECT_EQ(mount_of("", "/x"), "");
  EXPECT_EQ(mount_of("1 2 3", "/x"), "");
}

TEST(BlockingCall, NamesTheCallAndTheFile) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(ends[1]);
    char byte = 0;
    (void)!::read(ends[0], &byte, 1);
    ::_exit(0);
  }
  std::string call;
  EXPECT_TRUE(fakes::eventually([&] { return !(call = blocking_call(child)).empty(); }));
  EXPECT_TRUE(call.starts_with("read of 'pipe:[")) << call;
  ::close(ends[1]);
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(blocking_call(child), "");
}

// That file system may be the reason.
TEST(BlockingCall, NamesTheFileSystemOfAFile) {
  char name[] = "/tmp/call-XXXXXX";
  const std::string folder = ::mkdtemp(name), pipe = folder + "/pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int fd = ::open(pipe.c_str(), O_RDWR | O_CLOEXEC);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    (void)!::read(fd, &byte, 1);
    ::_exit(0);
  }
  std::string call;
  EXPECT_TRUE(fakes::eventually([&] { return !(call = blocking_call(child)).empty(); }));
  const std::string mount = mount_of(read_text("/proc/self/mountinfo"), pipe);
  EXPECT_EQ(call, "read of '" + pipe + "' (" + mount + ")");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(fd);
  ::unlink(pipe.c_str());
  ::rmdir(folder.c_str());
}

TEST(BlockingCall, IsEmptyForOtherCalls) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  EXPECT_EQ(blocking_call(child), "");
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

}  // namespace
}  // namespace train
