// Which traind a later launcher takes for the run's own: one in a folder that we made, with a
// process of this user.
#include "launcher/cluster/links/private_daemon.h"

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

/// A process that listens on a socket as `user`, in a folder that may belong to somebody else. The
/// kernel records who calls listen().
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

TEST_F(PrivateDaemonTest, OneThatHasExitedHasEnded) {
  PrivateDaemon daemon;
  ASSERT_TRUE(daemon.start());
  siginfo_t end{};  // wait for it, and leave it to be reaped
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(daemon.pid()), &end, WEXITED | WNOWAIT), 0);

  EXPECT_TRUE(daemon.ended());
  EXPECT_TRUE(daemon.ended());
  EXPECT_EQ(daemon.failures(), 0) << "/bin/true ends well";
  daemon.clean_up();
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

  ASSERT_TRUE(found);  // our folder: it leads a new traind to the supervisors
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

TEST_F(PrivateDaemonTest, ASpoolThatSomebodyMadeFirstIsLeftAlone) {
  PrivateDaemon daemon;
  std::string name = fs::path(daemon.runtime_dir()).filename();
  const std::string spool = in("spool/") + name.replace(name.find('-'), 1, "_");
  fs::create_directory(spool);

  EXPECT_TRUE(daemon.start());

  EXPECT_TRUE(daemon.spool_dir().starts_with("/var/tmp/")) << daemon.spool_dir();
  daemon.stop();
  EXPECT_TRUE(fs::is_empty(spool));
}

/// Start a daemon and stop it. Return where its spool was; nothing of it is left.
std::string spool_of_a_new_one() {
  PrivateDaemon daemon;
  const auto started = daemon.start();
  EXPECT_TRUE(started) << started.error().describe();
  std::string spool = daemon.spool_dir();
  EXPECT_TRUE(check_own_folder(spool));
  daemon.stop();
  EXPECT_FALSE(fs::exists(spool));
  return spool;
}

TEST_F(PrivateDaemonTest, ASpoolThatCannotBeInTmpdirIsElsewhere) {
  EXPECT_TRUE(spool_of_a_new_one().starts_with(in("spool/trainrun_")));
  // A folder that a batch system removed; no absolute path; a folder whose socket paths would be
  // too long; a folder in which nobody can make a socket or a folder.
  for (const std::string& unusable :
       {in("none"), std::string("spool"), std::string(40, '/'), std::string("/proc")}) {
    ::setenv("TMPDIR", unusable.c_str(), 1);
    EXPECT_TRUE(spool_of_a_new_one().starts_with("/var/tmp/trainrun_")) << unusable;
  }
}

TEST_F(PrivateDaemonTest, BothItsFoldersMayLieInOne) {
  ::setenv("TMPDIR", in("rt").c_str(), 1);
  EXPECT_TRUE(spool_of_a_new_one().starts_with(in("rt/trainrun_")));
}

TEST_F(PrivateDaemonTest, FoldersThatOthersMayExchangeAreNotUsed) {
  fs::permissions(in("spool"), fs::perms::all);
  fs::permissions(in("rt"), fs::perms::all);
  EXPECT_TRUE(spool_of_a_new_one().starts_with("/var/tmp/trainrun_"));
  EXPECT_TRUE(PrivateDaemon().runtime_dir().starts_with("/tmp/trainrun-"));

  fs::permissions(in("spool"), fs::perms::all | fs::perms::sticky_bit);
  fs::permissions(in("rt"), fs::perms::all | fs::perms::sticky_bit);
  EXPECT_TRUE(spool_of_a_new_one().starts_with(in("spool/trainrun_")));
  EXPECT_TRUE(PrivateDaemon().runtime_dir().starts_with(in("rt/trainrun-")));

  fs::permissions(in("rt"), fs::perms::all);
  ASSERT_TRUE(make_own_folder(in("rt/own")));
  EXPECT_FALSE(PrivateDaemon::at(in("rt/own")));
}

TEST_F(PrivateDaemonTest, NorAreThoseOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "SKIPPED: needs root, to act as another user";
  for (const char* name : {"spool", "rt"})
    ASSERT_EQ(::chown(in(name).c_str(), kOther, kOther), 0);  // as `su` leaves them

  EXPECT_TRUE(spool_of_a_new_one().starts_with("/var/tmp/trainrun_"));
  EXPECT_TRUE(PrivateDaemon().runtime_dir().starts_with("/tmp/trainrun-"));
}

TEST_F(PrivateDaemonTest, OneWhoseTmpdirIsGoneGetsAnotherSpoolUnlessSupervisorsHaveTheFirst) {
  PrivateDaemon first;
  ASSERT_TRUE(first.start());
  fs::remove_all(in("spool"));
  std::ofstream(first.runtime_dir() + "/s-job").flush();
  auto found = PrivateDaemon::at(first.runtime_dir());
  ASSERT_TRUE(found);

  const auto refused = found->start();

  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::NotFound);
  EXPECT_EQ(found->failures(), 1);
  EXPECT_EQ(found->last_error(), refused.error());

  fs::remove(first.runtime_dir() + "/s-job");
  const auto started = found->start();

  EXPECT_TRUE(started) << started.error().describe();
  EXPECT_TRUE(found->spool_dir().starts_with("/var/tmp/trainrun_")) << found->spool_dir();
  EXPECT_EQ(PrivateDaemon::at(first.runtime_dir())->spool_dir(), found->spool_dir());
  found->stop();
  first.stop();
}

// A run's traind removes its spool first, and its runtime folder a moment later.
TEST_F(PrivateDaemonTest, OneWhosePredecessorIsRemovingItsFoldersGetsNewOnes) {
  PrivateDaemon first;
  ASSERT_TRUE(first.start());
  const std::string runtime_dir = first.runtime_dir();
  std::ofstream(runtime_dir + "/s-1").put('\n');
  ASSERT_TRUE(remove_own_folder(first.spool_dir()));
  auto next = PrivateDaemon::at(runtime_dir);
  ASSERT_TRUE(next);
  std::thread predecessor([&] { (void)remove_own_folder(runtime_dir); });

  const auto started = next->start();

  predecessor.join();
  EXPECT_TRUE(started) << started.error().describe();
  EXPECT_TRUE(check_own_folder(next->spool_dir()));
  next->stop();
}

TEST_F(PrivateDaemonTest, OneThatIsStoppedLeavesTheFoldersOfSupervisorsAlone) {
  PrivateDaemon daemon;
  ASSERT_TRUE(daemon.start());
  std::ofstream(daemon.runtime_dir() + "/s-job").flush();

  daemon.stop();

  EXPECT_TRUE(fs::exists(daemon.runtime_dir() + "/s-job"));
  EXPECT_TRUE(fs::exists(daemon.spool_dir()));
  daemon.clean_up();
}

TEST_F(PrivateDaemonTest, TheSpoolOfOneWhoseRuntimeFolderIsGoneGoesToo) {
  PrivateDaemon lost;
  ASSERT_TRUE(lost.start());
  lost.remember(in("note"));
  PrivateDaemon::clean_up_lost(in("note"));
  EXPECT_TRUE(fs::exists(lost.spool_dir()));  // it is not lost yet

  fs::remove_all(lost.runtime_dir());
  ASSERT_TRUE(make_own_folder(in("spool/of-another-run")));
  std::ofstream(in("forged")) << lost.runtime_dir() << "\n" << in("spool/of-another-run") << "\n";
  PrivateDaemon::clean_up_lost(in("forged"));
  EXPECT_TRUE(fs::exists(in("spool/of-another-run")));

  PrivateDaemon::clean_up_lost(in("note"));
  EXPECT_FALSE(fs::exists(lost.spool_dir()));
  lost.stop();
}

TEST_F(PrivateDaemonTest, ALaterLauncherHasTheSameSpoolWhateverItsTmpdirIs) {
  PrivateDaemon first;
  ASSERT_TRUE(first.start());
  ::unsetenv("TMPDIR");

  auto found = PrivateDaemon::at(first.runtime_dir());

  ASSERT_TRUE(found);
  EXPECT_EQ(found->spool_dir(), first.spool_dir());
  found->clean_up();
  EXPECT_FALSE(fs::exists(first.spool_dir()));
  EXPECT_FALSE(fs::exists(first.runtime_dir()));
  first.stop();
}

TEST_F(PrivateDaemonTest, OneThatDiedBeforeItHadASpoolIsStartedAllTheSame) {
  ASSERT_TRUE(make_own_folder(in("own")));
  auto found = PrivateDaemon::at(in("own"));
  ASSERT_TRUE(found);

  const auto started = found->start();

  EXPECT_TRUE(started) << started.error().describe();
  EXPECT_TRUE(fs::is_directory(found->spool_dir()));
  found->stop();
}

}  // namespace
}  // namespace train
