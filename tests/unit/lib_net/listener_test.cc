#include "lib/net/listener.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <deque>
#include <fstream>

#include "tests/unit/lib_net/net_fixture.h"

namespace {

std::deque<int> accept_errors;  // of the next calls, in order

}  // namespace

/// Replaces the C library's function, which we cannot make fail.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the header has reserved ones
extern "C" int accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  if (accept_errors.empty())
    return static_cast<int>(::syscall(SYS_accept4, fd, address, size, flags));
  errno = accept_errors.front();
  accept_errors.pop_front();
  return -1;
}

namespace train {
namespace {

class ListenerTest : public NetTest {
 protected:
  static mode_t mode_of(const std::filesystem::path& path) {
    struct stat status {};
    EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777;
  }
  static asio::awaitable<void> store(std::optional<Result<std::unique_ptr<Connection>>>& out,
                                     Task<std::unique_ptr<Connection>> task) {
    out = co_await std::move(task);
  }
  /// Return the result of accept() after these kernel errors, if a peer comes later.
  std::string accept_after(std::deque<int> errors) {
    auto listener = Listener::listen(executor(), Endpoint::tcp("127.0.0.1", 0)).value();
    const Endpoint endpoint = listener->local_endpoint();
    std::optional<Result<std::unique_ptr<Connection>>> accepted;
    accept_errors = std::move(errors);
    run([&]() -> asio::awaitable<void> {
      Scope scope(executor());
      scope.spawn("accept", store(accepted, listener->accept()));
      while (!accepted && !accept_errors.empty())
        co_await asio::post(executor(), asio::use_awaitable);
      accept_errors.clear();
      auto peer = co_await Connection::connect(executor(), endpoint, 10s);
      EXPECT_TRUE(peer.has_value());
      co_await scope.join();
    });
    const std::string name = endpoint.text();
    std::string text = accepted->has_value() ? "accepted" : accepted->error().describe();
    if (const auto at = text.find(name); at != std::string::npos) text.replace(at, name.size(), "");
    return text;
  }
};

TEST_F(ListenerTest, AUnixSocketIsPrivateAndGoesWithItsListener) {
  const auto path = folder_ / "run" / "x.sock";
  {
    auto listener = Listener::listen(executor(), Endpoint::unix_socket(path.string()));
    ASSERT_TRUE(listener.has_value()) << listener.error().describe();
    EXPECT_EQ(mode_of(path), 0600u);
    EXPECT_EQ(mode_of(path.parent_path()), 0700u);
    EXPECT_EQ((*listener)->local_endpoint(), Endpoint::unix_socket(path.string()));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(ListenerTest, APathWithoutAFolderIsInTheCurrentOne) {
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  {
    const auto listener = Listener::listen(executor(), Endpoint::unix_socket("x.sock"));
    EXPECT_TRUE(listener.has_value()) << listener.error().describe();
    EXPECT_TRUE(std::filesystem::exists(folder_ / "x.sock"));
  }
  std::filesystem::current_path(before);
}

TEST_F(ListenerTest, ReplacesTheSocketOfTheDeadOnly) {
  const auto path = folder_ / "x.sock";
  auto living = Listener::listen(executor(), Endpoint::unix_socket(path.string())).value();
  EXPECT_EQ(
      Listener::listen(executor(), Endpoint::unix_socket(path.string())).error(),
      (Error{Errc::AlreadyExists,
             "listening on unix:" + path.string() + ": another process is already listening there",
             "choose another path"}));
  // A dead process leaves its file behind: keep a second link to it while the listener closes.
  std::filesystem::create_hard_link(path, folder_ / "kept");
  living->close();
  std::filesystem::rename(folder_ / "kept", path);
  auto next = Listener::listen(executor(), Endpoint::unix_socket(path.string()));
  ASSERT_TRUE(next.has_value()) << next.error().describe();
  living.reset();  // must not remove the new one's file
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(ListenerTest, NeverRemovesAFileThatIsNoSocket) {
  const auto path = folder_ / "notes";
  std::ofstream(path) << "precious";
  EXPECT_EQ(Listener::listen(executor(), Endpoint::unix_socket(path.string())).error(),
            (Error{Errc::AlreadyExists, path.string() + " exists and is not a socket",
                   "choose another path, or remove it"}));
  EXPECT_EQ(std::filesystem::file_size(path), 8u);
}

TEST_F(ListenerTest, SaysWhyItCannotMakeTheFolder) {
  const auto folder = folder_ / "notes" / "run";
  std::ofstream(folder_ / "notes") << "precious";
  EXPECT_EQ(Listener::listen(executor(), Endpoint::unix_socket((folder / "x").string()))
                .error()
                .describe(),
            "creating " + folder.string() + ": Not a directory");
}

TEST_F(ListenerTest, RefusesAFolderThatIsOpenToOthers) {
  const auto folder = folder_ / "open";
  std::filesystem::create_directory(folder);
  ::chmod(folder.c_str(), 0750);
  EXPECT_EQ(Listener::listen(executor(), Endpoint::unix_socket((folder / "x").string())).error(),
            (Error{Errc::Permission,
                   "the socket's folder " + folder.string() +
                       " has mode 0750, which gives others access; 0700 is required",
                   "chmod 700 " + folder.string()}));
}

TEST_F(ListenerTest, RefusesAFolderOfSomebodyElse) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  const auto folder = folder_ / "given";
  std::filesystem::create_directory(folder);
  ::chmod(folder.c_str(), 0700);
  ASSERT_EQ(::chown(folder.c_str(), 4711, -1), 0);
  EXPECT_EQ(Listener::listen(executor(), Endpoint::unix_socket((folder / "x").string())).error(),
            (Error{Errc::Permission,
                   "the socket's folder " + folder.string() +
                       " belongs to uid 4711, but must belong to uid 0",
                   "choose a folder of your own"}));
}

TEST_F(ListenerTest, WhoListensAtASocketThatAnotherBoundIsNamedByTheKernel) {
  const auto path = folder_ / "x.sock";
  auto bound = bind_unix_socket(executor(), path.string());
  ASSERT_TRUE(bound.has_value()) << bound.error().describe();
  EXPECT_EQ(mode_of(path), 0600u);
  int ready[2], over[2];
  ASSERT_EQ(::pipe(ready) + ::pipe(over), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::close(over[1]);
    boost::asio::io_context context;
    const auto listener = Listener::listen(context.get_executor(), FileDescriptor(bound->get()));
    char byte = listener.has_value() ? 'x' : '!';
    [[maybe_unused]] auto count = ::write(ready[1], &byte, 1);
    count = ::read(over[0], &byte, 1);
    ::_exit(0);
  }
  bound->reset();
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'x');

  run([&]() -> asio::awaitable<void> {
    auto connection =
        co_await Connection::connect(executor(), Endpoint::unix_socket(path.string()), seconds(5));
    EXPECT_TRUE(connection.has_value()) << connection.error().describe();
    if (!connection.has_value()) co_return;
    EXPECT_EQ((*connection)->credentials()->pid, child);
  });
  ::close(over[1]);
  ::waitpid(child, nullptr, 0);
  // The socket's file stays, so that its creator finds it.
  EXPECT_TRUE(std::filesystem::exists(path));
  run([&]() -> asio::awaitable<void> {
    const auto connection =
        co_await Connection::connect(executor(), Endpoint::unix_socket(path.string()), seconds(5));
    EXPECT_EQ(connection.error().code, Errc::Unavailable);
  });
}

TEST_F(ListenerTest, ATcpPortIsTakenOnce) {
  auto listener = Listener::listen(executor(), Endpoint::tcp("127.0.0.1", 0)).value();
  const Endpoint taken = listener->local_endpoint();
  EXPECT_EQ(taken.host_or_path, "127.0.0.1");
  EXPECT_EQ(Listener::listen(executor(), taken).error(),
            (Error{Errc::AlreadyExists,
                   "listening on " + taken.text() + ": another process is already listening there",
                   "choose another address"}));
  listener->close();
  listener->close();
  EXPECT_TRUE(Listener::listen(executor(), taken).has_value());
}

TEST_F(ListenerTest, CloseWakesAccept) {
  run([&]() -> asio::awaitable<void> {
    auto listener = Listener::listen(executor(), Endpoint::tcp("127.0.0.1", 0)).value();
    Scope scope(executor());
    std::optional<Errc> seen;
    const auto acceptor = [](Listener& l, std::optional<Errc>& out) -> asio::awaitable<void> {
      auto connection = co_await l.accept();
      if (connection.has_error()) out = connection.error().code;
    };
    scope.spawn("accept", acceptor(*listener, seen));
    auto paused = co_await pause_for(1ms);
    EXPECT_TRUE(paused.has_value());
    listener.reset();
    co_await scope.join();
    EXPECT_EQ(seen, Errc::Unavailable);
  });
}

// Linux reports the errors of connections that nobody has accepted yet.
TEST_F(ListenerTest, OutlastsAPeerThatIsGoneBeforeItIsAccepted) {
  for (const int error : {EINTR, ECONNABORTED, EPERM, EPROTO, ENETDOWN, ENOPROTOOPT, EHOSTDOWN,
                          ENONET, EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH, ETIMEDOUT})
    EXPECT_EQ(accept_after({error, error}), "accepted") << ::strerror(error);
  EXPECT_EQ(accept_after({EINVAL}), "accepting on : Invalid argument");
}

TEST_F(ListenerTest, OutlastsAFullTableWhileNobodyWaits) {
  for (const int error : {EMFILE, ENFILE, ENOBUFS, ENOMEM})
    EXPECT_EQ(accept_after({error}), "accepted") << ::strerror(error);
}

TEST_F(ListenerTest, AFullTableTurnsEachPeerAwayThatWaits) {
  for (const int between : {EINTR, ECONNABORTED}) {
    run([&]() -> asio::awaitable<void> {
      auto listener = Listener::listen(executor(), Endpoint::tcp("127.0.0.1", 0)).value();
      auto one = co_await Connection::connect(executor(), listener->local_endpoint(), 10s);
      auto two = co_await Connection::connect(executor(), listener->local_endpoint(), 10s);
      EXPECT_TRUE(one.has_value() && two.has_value());
      if (!one.has_value() || !two.has_value()) co_return;
      accept_errors = {EMFILE, between};
      Scope scope(executor());
      std::optional<Result<std::unique_ptr<Connection>>> accepted;
      scope.spawn("accept", store(accepted, listener->accept()));
      for (const auto* peer : {&*one, &*two}) {
        auto end = co_await within(10s, (*peer)->receive());
        EXPECT_TRUE(end.has_error() && end.error().code == Errc::Unavailable);
      }
      listener->close();
      co_await scope.join();
    });
  }
}

TEST_F(ListenerTest, TurnsPeersAwayWhileTheTableOfDescriptorsIsFull) {
  run([&]() -> asio::awaitable<void> {
    auto listener = Listener::listen(executor(), Endpoint::tcp("127.0.0.1", 0)).value();
    auto turned_away = co_await Connection::connect(executor(), listener->local_endpoint(), 10s);
    EXPECT_TRUE(turned_away.has_value());
    if (!turned_away.has_value()) co_return;
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    const int lowest_free = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::close(lowest_free);
    const rlimit full{.rlim_cur = static_cast<rlim_t>(lowest_free), .rlim_max = before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &full);
    Scope scope(executor());
    std::unique_ptr<Connection> accepted;
    const auto acceptor = [](Listener& l,
                             std::unique_ptr<Connection>& out) -> asio::awaitable<void> {
      auto connection = co_await l.accept();
      if (connection.has_value()) out = std::move(*connection);
    };
    scope.spawn("accept", acceptor(*listener, accepted));
    auto end = co_await within(10s, (*turned_away)->receive());
    EXPECT_TRUE(end.has_error() && end.error().code == Errc::Unavailable);
    ::setrlimit(RLIMIT_NOFILE, &before);
    auto welcome = co_await Connection::connect(executor(), listener->local_endpoint(), 10s);
    EXPECT_TRUE(welcome.has_value());
    co_await scope.join();
    EXPECT_NE(accepted, nullptr);
  });
}

}  // namespace
}  // namespace train
