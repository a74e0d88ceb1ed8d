// Which traind a later launcher takes for the run's own: one in a folder that we made, and whose
// process is this user's.
#include "launcher/cluster/private_daemon.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cstdlib>

#include "lib/storage/own_folder.h"
#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kOther = 65534;

/// A process that listens at a socket as `user`, which need not be whose folder it lies in: the
/// kernel notes who calls listen().
class ListeningAs {
 public:
  ListeningAs(uid_t user, const std::string& socket) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      socket.copy(address.sun_path, sizeof address.sun_path - 1);
      if (::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
          (user != ::geteuid() && ::setuid(user) != 0) || ::listen(listener, 10) != 0 ||
          ::write(ready[1], "x", 1) != 1)
        ::_exit(1);
      for (;;) ::pause();
    }
    ::close(ready[1]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1) << "nobody listens";
    ::close(ready[0]);
  }
  ~ListeningAs() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ListeningAs(const ListeningAs&) = delete;
  ListeningAs& operator=(const ListeningAs&) = delete;
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

class PrivateDaemonTest : public testing::Test {
 protected:
  PrivateDaemonTest() {
    for (const char* name : {"rt", "spool"}) fs::create_directory(in(name));
    ::setenv("XDG_RUNTIME_DIR", in("rt").c_str(), 1);
    ::setenv("TMPDIR", in("spool").c_str(), 1);
    ::setenv("TRAINRUN_TRAIND", "/bin/true", 1);
  }
  ~PrivateDaemonTest() override {
    for (const char* name : {"XDG_RUNTIME_DIR", "TMPDIR", "TRAINRUN_TRAIND"}) ::unsetenv(name);
  }
  std::string in(const std::string& name) const { return folder_.path() + "/" + name; }

  TempFolder folder_;
};

TEST_F(PrivateDaemonTest, OneThatLivesInAFolderOfOursIsFound) {
  ASSERT_TRUE(make_own_folder(in("own")));
  const ListeningAs traind(::geteuid(), in("own/traind.sock"));

  auto found = PrivateDaemon::at(in("own"));

  ASSERT_TRUE(found);
  EXPECT_EQ(found->pid(), traind.pid());
  EXPECT_FALSE(found->ended());
}

TEST_F(PrivateDaemonTest, AFolderWithoutOurMarkIsNone) {
  fs::create_directory(in("somebody's"));
  fs::permissions(in("somebody's"), fs::perms::owner_all);
  const ListeningAs traind(::geteuid(), in("somebody's/traind.sock"));

  EXPECT_FALSE(PrivateDaemon::at(in("somebody's")));
}

TEST_F(PrivateDaemonTest, ALinkToAFolderOfOursIsNone) {
  ASSERT_TRUE(make_own_folder(in("own")));
  const ListeningAs traind(::geteuid(), in("own/traind.sock"));
  fs::create_directory_symlink(in("own"), in("link"));
  std::ofstream(in("note")) << in("link") << "\n";

  EXPECT_FALSE(PrivateDaemon::at(in("link")));
  EXPECT_FALSE(PrivateDaemon::find(in("note")));
}

TEST_F(PrivateDaemonTest, AProcessOfAnotherUserIsNotOursWhereverItListens) {
  if (::geteuid() != 0) GTEST_SKIP() << "SKIPPED: needs root, to act as another user";
  ASSERT_TRUE(make_own_folder(in("own")));
  const ListeningAs theirs(kOther, in("own/traind.sock"));

  auto found = PrivateDaemon::at(in("own"));

  ASSERT_TRUE(found);  // our folder: a new traind finds the supervisors by it
  EXPECT_EQ(found->pid(), -1);
  EXPECT_TRUE(found->ended());
}

TEST_F(PrivateDaemonTest, NothingIsStartedInAFolderThatSomebodyMadeFirst) {
  PrivateDaemon daemon;
  fs::create_directory(daemon.runtime_dir());

  const auto started = daemon.start();

  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, Errc::AlreadyExists);
  EXPECT_EQ(daemon.pid(), -1);
  EXPECT_TRUE(fs::is_empty(daemon.runtime_dir()));
  daemon.clean_up();
  EXPECT_TRUE(fs::exists(daemon.runtime_dir()));
}

TEST_F(PrivateDaemonTest, NorWhereItsSpoolIsSomebodyElses) {
  PrivateDaemon daemon;
  const std::string spool = in("spool/") + fs::path(daemon.runtime_dir()).filename().string();
  fs::create_directory(spool);

  EXPECT_FALSE(daemon.start());

  EXPECT_EQ(daemon.pid(), -1);
  EXPECT_TRUE(fs::is_empty(spool));
}

}  // namespace
}  // namespace train
