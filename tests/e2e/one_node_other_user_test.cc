// Another user of the same machine: folders that they made first and sockets on which they listen
// get nothing of ours and cost us nothing. Needs root, to act as somebody else (uid 65534).
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "lib/wire/codec.h"
#include "lib/wire/link_messages.h"
#include "lib/wire/worker_messages.h"
#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kOther = 65534;

/// A process of another user that listens on a Unix socket, and keeps what it receives in a file
/// beside the socket.
class Listener {
 public:
  explicit Listener(const std::string& socket) : heard_(socket + ".heard") {
    pid_ = ::fork();
    if (pid_ == 0) {
      if (::setgid(kOther) != 0 || ::setuid(kOther) != 0) ::_exit(1);
      const int listener = ::socket(AF_UNIX, SOCK_STREAM, 0);
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      socket.copy(address.sun_path, sizeof address.sun_path - 1);
      if (::bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) ::_exit(2);
      ::chmod(socket.c_str(), 0777);
      std::ofstream heard(heard_);
      ::listen(listener, 10);
      for (;;) {
        const int peer = ::accept(listener, nullptr, nullptr);
        char buffer[4096];
        for (ssize_t got = 0; (got = ::read(peer, buffer, sizeof buffer)) > 0;) {
          heard.write(buffer, got);
          heard.flush();
        }
        ::close(peer);
      }
    }
  }
  ~Listener() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  bool ready() const { return exists(heard_); }
  std::string heard() const { return read_file(heard_); }

 private:
  std::string heard_;
  pid_t pid_ = -1;
};

class OtherUser : public testing::Test {
 protected:
  void SetUp() override {
    if (::geteuid() != 0) GTEST_SKIP() << "SKIPPED: needs root, to act as another user";
    // This folder is open to everyone, like /tmp.
    char name[] = "/tmp/shared-XXXXXX";
    shared = ::mkdtemp(name);
    ::chmod(shared.c_str(), 01777);
  }
  void TearDown() override {
    std::error_code ignored;
    if (!shared.empty()) fs::remove_all(shared, ignored);
  }
  /// Make a folder of the other user, with the mode that they choose.
  std::string make_theirs(const std::string& name, mode_t mode) const {
    std::string path = shared + "/" + name;
    fs::create_directory(path);
    ::chmod(path.c_str(), mode);
    EXPECT_EQ(::chown(path.c_str(), kOther, kOther), 0);
    return path;
  }
  std::string hello_job() const {
    return cluster.job("job", "command: echo hello\nscaling_config: {num_workers: 1}\n");
  }

  Cluster cluster;
  std::string shared;
};

TEST_F(OtherUser, WhoListensInTheNameOfATraindHearsNothing) {
  const std::string socket = make_theirs("rt", 0755) + "/traind.sock";
  Listener listener(socket);
  ASSERT_TRUE(wait_until([&] { return listener.ready(); }));

  Process& run =
      cluster.train_run({hello_job(), "--hosts", "unix:" + socket},
                        {.env = {{"AWS_SECRET_ACCESS_KEY", "canary"}}, .prefix = {}, .cwd = ""});

  EXPECT_EQ(run.wait(), 77) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), "is a process of uid 65534, neither of uid 0 nor of root"))
      << run.out();
  EXPECT_EQ(listener.heard(), "");
}

TEST_F(OtherUser, ACommandToATraindIsSaidToNobodyElse) {
  const std::string folder = make_theirs("rt", 0755);
  Listener listener(folder + "/control.sock");
  ASSERT_TRUE(wait_until([&] { return listener.ready(); }));

  Process& drain = cluster.traind({"drain", "--runtime-dir", folder});

  EXPECT_NE(drain.wait(), 0);
  EXPECT_TRUE(contains(drain.err(), "is a process of uid 65534")) << drain.err();
  EXPECT_EQ(listener.heard(), "");
}

TEST_F(OtherUser, AWorkerDoesNotJoinHisSupervisor) {
  const std::string socket = make_theirs("sp", 0755) + "/worker.sock";
  Listener listener(socket);
  ASSERT_TRUE(wait_until([&] { return listener.ready(); }));

  Process& worker =
      cluster.start({program("sdk_worker")},
                    {.env = {{"TRAINRUN_SOCKET", socket}, {"RANK", "0"}, {"WORLD_SIZE", "1"}},
                     .prefix = {},
                     .cwd = ""});

  EXPECT_NE(worker.wait(), 0);
  EXPECT_TRUE(contains(worker.err() + worker.out(), "another user's process (uid 65534) answers"))
      << worker.err() << worker.out();
  EXPECT_EQ(listener.heard(), "");
}

TEST_F(OtherUser, FoldersThatHeMadeFirstAreNotUsed) {
  const std::string precious = cluster.path("precious");
  fs::create_directories(precious + "/thesis/checkpoints");
  cluster.write("precious/thesis/draft.txt", "years of work");
  const timespec old[2] = {{1000, 0}, {1000, 0}};
  ::utimensat(AT_FDCWD, (precious + "/thesis/checkpoints").c_str(), old, 0);
  // As in /var/tmp, their folder is there first, with a link to our data in it.
  const std::string theirs = make_theirs("trainrun-0", 0777);
  fs::create_directory_symlink(precious, theirs + "/data");
  const std::string own = cluster.path("own");
  const std::string socket = "unix:" + cluster.path("own-rt/s.sock");

  for (const auto& [runtime, spool] : std::vector<std::pair<std::string, std::string>>{
           {cluster.path("own-rt"), theirs}, {theirs, cluster.path("own-sp")}}) {
    Process& daemon = cluster.traind(
        {"--allow-root", "--listen", socket, "--runtime-dir", runtime, "--spool-dir", spool});
    EXPECT_EQ(daemon.wait(), 78);
    EXPECT_EQ(daemon.err(), "traind: error: '" + theirs +
                                "' belongs to uid 65534, but must belong to uid 0\n"
                                "traind: name a folder of your own\n");
  }
  fs::create_directory_symlink(theirs, cluster.path("link"));
  Process& daemon = cluster.traind({"--allow-root", "--listen", socket, "--runtime-dir",
                                    cluster.path("own-rt"), "--spool-dir", cluster.path("link")});
  EXPECT_EQ(daemon.wait(), 78);
  EXPECT_TRUE(contains(daemon.err(), "is not a directory")) << daemon.err();

  EXPECT_EQ(cluster.read(precious + "/thesis/draft.txt"), "years of work");
}

TEST_F(OtherUser, ADataFolderKeepsWhatTraindDidNotMake) {
  const std::string data = cluster.path("scratch");
  fs::create_directories(data + "/thesis/checkpoints");
  fs::create_directories(data + "/thesis/src");
  cluster.write("scratch/thesis/src/main.cc", "int main() {}");
  fs::create_directories(data + "/.trash-of-mine");
  const timespec old[2] = {{1000, 0}, {1000, 0}};
  ::utimensat(AT_FDCWD, (data + "/thesis/checkpoints").c_str(), old, 0);

  Process& daemon = cluster.traind(
      {"--allow-root", "--listen", "unix:" + cluster.path("rt1/s.sock"), "--runtime-dir",
       cluster.path("rt1"), "--spool-dir", cluster.path("sp1"), "--data-dir", data});
  ASSERT_TRUE(wait_until([&] { return contains(daemon.err(), "msg=listening"); })) << daemon.err();
  daemon.signal(SIGTERM);
  EXPECT_EQ(daemon.wait(), 0);

  EXPECT_EQ(cluster.read(data + "/thesis/src/main.cc"), "int main() {}");
  EXPECT_TRUE(exists(data + "/thesis/checkpoints"));
  EXPECT_TRUE(exists(data + "/.trash-of-mine"));
}

TEST_F(OtherUser, RootsTraindIsOutOfHisReach) {
  Process& daemon =
      cluster.traind({"--allow-root", "--runtime-dir", cluster.path("rt2"), "--spool-dir",
                      cluster.path("sp2"), "--listen", "unix:" + cluster.path("rt2/traind.sock")});
  ASSERT_TRUE(wait_until([&] { return contains(daemon.err(), "msg=listening"); })) << daemon.err();

  for (const char* name : {"/traind.sock", "/control.sock"}) {
    const std::string socket = cluster.path("rt2") + name;
    const pid_t child = ::fork();
    if (child == 0) {
      if (::setgid(kOther) != 0 || ::setuid(kOther) != 0) ::_exit(1);
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      socket.copy(address.sun_path, sizeof address.sun_path - 1);
      const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
      const bool connected =
          ::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
      ::_exit(connected ? 2 : 0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << socket;
  }
  daemon.signal(SIGTERM);
  EXPECT_EQ(daemon.wait(), 0);
}

/// Return what a process of this user hears on a Unix socket: the first message, "" if it is
/// closed, or "(nothing comes)" after far more time than an answer takes.
std::string answer_to(uid_t user, const std::string& socket, const std::string& said) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    if (user != 0 && (::setgid(user) != 0 || ::setuid(user) != 0)) ::_exit(1);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    socket.copy(address.sun_path, sizeof address.sun_path - 1);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) ::_exit(2);
    (void)::send(fd, said.data(), said.size(), MSG_NOSIGNAL);
    pollfd ready{fd, POLLIN, 0};
    std::string heard(4096, '\0');
    if (::poll(&ready, 1, 60'000) != 1) {
      heard = "(nothing comes)";
    } else {
      const ssize_t got = ::recv(fd, heard.data(), heard.size(), 0);
      heard.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    }
    ::_exit(::write(ends[1], heard.data(), heard.size()) < 0 ? 3 : 0);
  }
  ::close(ends[1]);
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << "uid " << user << " did not reach " << socket;
  std::string heard(4096, '\0');
  heard.resize(static_cast<std::size_t>(std::max<ssize_t>(0, ::read(ends[0], heard.data(), 4096))));
  ::close(ends[0]);
  return heard;
}

template <class Message>
std::string frame_of(const Message& message, std::optional<Attempt> attempt = {}) {
  std::string bytes;
  append_frame(attempt ? encode(message, *attempt) : encode(message), bytes);
  return bytes;
}

// The modes of the folders keep others out. Even with wrong modes, the kernel tells who owns a
// process.
TEST_F(OtherUser, WhoReachesASocketAllTheSameIsTurnedAway) {
  const std::string socket = cluster.path("rt2/traind.sock");
  Process& daemon =
      cluster.traind({"--allow-root", "--runtime-dir", cluster.path("rt2"), "--spool-dir",
                      cluster.path("sp2"), "--listen", "unix:" + socket});
  ASSERT_TRUE(wait_until([&] { return contains(daemon.err(), "msg=listening"); })) << daemon.err();
  Process& run = cluster.train_run(
      {cluster.job("job", "command: [" + program("plain_worker") + ", print, ready, wait-for, " +
                              cluster.path("go") + "]\nscaling_config: {num_workers: 1}\n"),
       "--hosts", "unix:" + socket});
  ASSERT_TRUE(wait_until([&] { return contains(run.out(), "ready"); })) << run.out() << run.err();
  std::map<std::string, std::string> sockets;  // by listener
  ::chmod(cluster.dir().c_str(), 0755);
  for (const char* folder : {"rt2", "sp2"}) {
    ::chmod(cluster.path(folder).c_str(), 0755);
    for (const auto& entry : fs::recursive_directory_iterator(cluster.path(folder))) {
      if (entry.is_directory()) ::chmod(entry.path().c_str(), 0755);
      if (!entry.is_socket()) continue;
      ::chmod(entry.path().c_str(), 0777);
      const std::string name = entry.path().filename();
      sockets[name.starts_with("s-") ? "supervisor" : name] = entry.path();
    }
  }
  ASSERT_EQ(sockets.size(), 4u);
  Hello launcher;
  launcher.role = "launcher";
  launcher.instance = std::string(16, 'i');
  WorkerHello worker;
  worker.rank = 0;
  const std::map<std::string, std::string> said = {{"traind.sock", frame_of(launcher)},
                                                   {"control.sock", frame_of(launcher)},
                                                   {"supervisor", ""},  // it sends first
                                                   {"worker.sock", frame_of(worker, Attempt{0})}};

  for (const auto& [what, path] : sockets) {
    const std::string theirs = answer_to(kOther, path, said.at(what));
    if (what == "worker.sock")
      EXPECT_TRUE(contains(theirs, "this supervisor belongs to another user")) << theirs;
    else
      EXPECT_EQ(theirs, "") << what;
  }
  // An allowed user gets an answer. Skip the supervisor: it would take us for its traind.
  for (const char* what : {"traind.sock", "control.sock", "worker.sock"}) {
    const std::string ours = answer_to(0, sockets.at(what), said.at(what));
    EXPECT_FALSE(ours.empty() || contains(ours, "another user") || ours == "(nothing comes)")
        << what << ": " << ours;
  }
  EXPECT_TRUE(contains(daemon.err(), "is a process of uid 65534, neither of uid 0 nor of root"))
      << daemon.err();
  cluster.write("go", "");
  EXPECT_EQ(run.wait(), 0) << run.out();
  daemon.signal(SIGTERM);
  EXPECT_EQ(daemon.wait(), 0);
}

TEST_F(OtherUser, DataThatOthersMadeFirstOrLinkToIsNotUsed) {
  const std::string precious = make_theirs("precious", 0755);
  cluster.write("mine.txt", "years of work");
  const auto refused = [&](const std::vector<std::string>& data) {
    std::vector<std::string> words{
        "--allow-root",     "--listen",          "unix:" + cluster.path("rt3/s.sock"),
        "--runtime-dir",    cluster.path("rt3"), "--spool-dir",
        cluster.path("sp3")};
    words.insert(words.end(), data.begin(), data.end());
    Process& daemon = cluster.traind(words);
    EXPECT_EQ(daemon.wait(), 78) << daemon.err();
    return daemon.err();
  };

  EXPECT_EQ(refused({"--data-dir", precious}),
            "traind: error: '" + precious +
                "' belongs to uid 65534, but must belong to uid 0\n"
                "traind: name a folder of your own\n");

  // Put a link in place of the data folder into our own spool.
  fs::create_directory_symlink(precious, cluster.path("sp3/data"));
  EXPECT_TRUE(contains(refused({}), "'" + cluster.path("sp3/data") + "' is not a directory"));
  fs::remove(cluster.path("sp3/data"));
  fs::create_directory_symlink(cluster.dir(), cluster.path("sp3/data"));
  EXPECT_TRUE(contains(refused({}), "'" + cluster.path("sp3/data") + "' is not a directory"))
      << "wherever it leads";

  EXPECT_TRUE(fs::is_empty(precious));
  EXPECT_EQ(cluster.read(cluster.path("mine.txt")), "years of work");
}

}  // namespace
}  // namespace train::e2e
