// The launcher's link to one traind, over a real Unix socket: how long it tolerates a traind that
// is away or silent.
#include "launcher/cluster/links/daemon_link.h"

#include <sys/un.h>

#include <charconv>

#include "tests/unit/lib_net/net_fixture.h"

namespace train {
namespace {

/// Parse "405 ms" or "1.2 s", as format_duration() writes them.
Duration duration_of(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  EXPECT_EQ(error, std::errc{}) << text;
  const std::string_view unit(end, text.data() + text.size() - end);
  EXPECT_TRUE(unit == " ms" || unit == " s") << text;
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(unit == " ms" ? number / 1e3 : number));
}

class DaemonLinkTest : public NetTest {
 protected:
  DaemonLinkTest() : path_((folder_ / "traind.sock").string()) {
    options_.self = {"test", "launcher", "login", 1, ""};
    options_.attach.run_id = "vit-1";
    options_.limits.heartbeat_every = 10ms;
    options_.has_workers = true;  // there is something to lose
  }

  /// Return after the first verdict, or when the test has seen enough.
  void call_until_down_or_enough() {
    run([this]() -> asio::awaitable<void> {
      Scope scope(executor());
      DaemonLink link(executor(), std::make_unique<EndpointDialler>(Endpoint::unix_socket(path_)),
                      options_, tls_,
                      {.offered = [](const NodeOffer&, const std::string&, bool) {},
                       .received = [](const Frame&) {},
                       .away =
                           [&](const std::string& problem) {
                             problems_.push_back(problem);
                             if (on_problem_ && !on_problem_()) scope.cancel();
                           },
                       .down =
                           [&](const std::string& reason) {
                             down_ = reason;
                             scope.cancel();
                           },
                       .refused =
                           [](const Error& error) {
                             ADD_FAILURE() << error.describe();
                             return true;
                           },
                       .reached = [](const std::string&) { return std::string(); },
                       .vanished = [] {}});
      scope.spawn("link", link.run());
      co_await scope.join();
    });
  }

  /// Bind a socket, whose file a killed traind leaves. Some tests then listen on it.
  FileDescriptor bound_socket() const {
    FileDescriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    EXPECT_LT(path_.size(), sizeof address.sun_path);
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    return fd;
  }

  std::string path_;
  DaemonLinkOptions options_{
      .self = {}, .attach = {}, .owner_key = {}, .limits = {.away_limit = 1h}};
  const std::optional<TlsContext> no_tls_;
  const TlsSource tls_ = [this]() -> auto& { return no_tls_; };
  std::function<bool()> on_problem_;  // returns false when it has seen enough
  std::vector<std::string> problems_;
  std::optional<std::string> down_;
};

TEST_F(DaemonLinkTest, ATraindThatIsAwayForTooLongIsGivenUp) {
  options_.limits.away_limit = 100ms;
  options_.limits.dead_after = 1h;
  call_until_down_or_enough();
  const std::string begin = "its traind was away for ";
  ASSERT_TRUE(down_);
  ASSERT_TRUE(down_->starts_with(begin)) << *down_;
  EXPECT_GE(duration_of(down_->substr(begin.size())), options_.limits.away_limit);
  EXPECT_EQ(problems_, std::vector<std::string>{"connecting: No such file or directory"});
}

// The link reports each change of the error. To see each call, make the next one fail in another
// way: the socket's file is gone, or it exists and nobody listens.
TEST_F(DaemonLinkTest, CallsThatAreRefusedAreNoSilence) {
  options_.limits.suspect_after = 10ms;
  options_.limits.dead_after = 20ms;  // over before the fifth call: pauses of 5, 10, 20, 40 ms
  on_problem_ = [&] {
    if (problems_.size() % 2 == 1)
      bound_socket();
    else
      std::filesystem::remove(path_);
    return problems_.size() < 6;
  };
  call_until_down_or_enough();
  EXPECT_FALSE(down_) << *down_;
  ASSERT_EQ(problems_.size(), 6u);
  EXPECT_EQ(problems_[4], "connecting: No such file or directory");
  EXPECT_EQ(problems_[5], "connecting: Connection refused");
}

// The first call waits for 200 ms, so it ends before dead_after is over.
TEST_F(DaemonLinkTest, OneThatListensAndNeverAnswersIsSilent) {
  options_.limits.away_limit = Duration{0};
  options_.limits.suspect_after = 100ms;
  options_.limits.dead_after = 300ms;
  const FileDescriptor stopped = bound_socket();
  ASSERT_EQ(::listen(stopped.get(), 100), 0);
  call_until_down_or_enough();
  const std::string begin = "no heartbeat for ";
  ASSERT_TRUE(down_);
  ASSERT_TRUE(down_->starts_with(begin)) << *down_;
  EXPECT_GE(duration_of(down_->substr(begin.size())), options_.limits.dead_after);
  EXPECT_EQ(problems_, std::vector<std::string>{"no answer"});
}

// After an upgrade on a busy machine, the link once declared a traind dead at the first slow call,
// because it counted all the time in which traind was away as silence.
TEST_F(DaemonLinkTest, OneThatWasAwayIsNotDeadAtTheFirstCallThatItDoesNotAnswer) {
  options_.limits.suspect_after = 100ms;
  options_.limits.dead_after = 600ms;  // a call waits for 250 ms
  const TimePoint began = std::chrono::steady_clock::now();
  std::optional<FileDescriptor> bound;
  TimePoint listening;
  on_problem_ = [&] {
    if (listening != TimePoint{}) return true;
    if (problems_.size() % 2 == 0) {
      bound.reset();
      std::filesystem::remove(path_);
      return true;
    }
    bound = bound_socket();
    if (std::chrono::steady_clock::now() < began + 700ms) return true;
    EXPECT_EQ(::listen(bound->get(), 100), 0);
    listening = std::chrono::steady_clock::now();
    return true;
  };
  call_until_down_or_enough();
  ASSERT_TRUE(down_ && down_->starts_with("no heartbeat for ")) << down_.value_or("");
  EXPECT_GE(std::chrono::steady_clock::now() - listening, 400ms);
}

TEST_F(DaemonLinkTest, WhereNothingCanBeLostThereIsNoVerdict) {
  options_.has_workers = false;
  options_.limits.away_limit = options_.limits.dead_after = options_.limits.suspect_after =
      Duration{0};
  on_problem_ = [&] {
    if (problems_.size() % 2 == 1)
      bound_socket();
    else
      std::filesystem::remove(path_);
    return problems_.size() < 4;
  };
  call_until_down_or_enough();
  EXPECT_FALSE(down_) << *down_;
  EXPECT_EQ(problems_.size(), 4u);
}

}  // namespace
}  // namespace train
