// Requests go through the run's folder, to which others may write, too.
#include "launcher/cluster/run/run_requests.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <ctime>
#include <filesystem>
#include <fstream>

#include "lib/base/text_file.h"
#include "lib/net/within.h"
#include "tests/unit/lib_net/net_fixture.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class RunRequestsTest : public NetTest {
 protected:
  struct Taken {
    std::string id;
    StacksRequest stacks;
    Result<ProfileRequest> profile = Error{};
    bool checkpoint = false;
    Result<WorkerCall> call = Error{};
  };
  /// Return the first request that is found.
  Taken next() {
    std::optional<Taken> found;
    Scope scope(executor());
    run([&]() -> asio::awaitable<void> {
      RequestHandlers handlers{.stacks =
                                   [&](const std::string& id, StacksRequest request) {
                                     if (!found) found = {id, std::move(request)};
                                   },
                               .profile =
                                   [&](const std::string& id, Result<ProfileRequest> request) {
                                     if (!found) found = {id, {}, std::move(request)};
                                   },
                               .checkpoint =
                                   [&](const std::string& id) {
                                     if (!found)
                                       found = {.id = id, .stacks = {}, .checkpoint = true};
                                   },
                               .call =
                                   [&](const std::string& id, Result<WorkerCall> call) {
                                     if (!found)
                                       found = {.id = id, .stacks = {}, .call = std::move(call)};
                                   }};
      scope.spawn("watch", watch_requests(folder_.string(), std::move(handlers)));
      while (!found) (void)co_await pause_for(1ms);
      scope.cancel();
      co_await scope.join();
    });
    return *found;
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  Result<PendingRequest> leave(const StacksRequest& request) {
    return PendingRequest::leave(RunFolder(folder_.string()), request);
  }
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
};

TEST_F(RunRequestsTest, AreTakenOnceAndAnswered) {
  auto request = leave({{Rank{3}, Rank{5}}});
  ASSERT_TRUE(request) << request.error().describe();
  EXPECT_EQ(request->take_answer(), std::nullopt);

  const Taken taken = next();

  EXPECT_EQ(taken.stacks.ranks, (std::vector<Rank>{Rank{3}, Rank{5}}));
  EXPECT_EQ(files(), 0u);
  ASSERT_TRUE(answer_request(folder_.string(), taken.id, {"attempts/000/stacks/a.txt", ""}));
  EXPECT_EQ(files(), 1u);
  EXPECT_EQ(request->take_answer(), (RequestAnswer{"attempts/000/stacks/a.txt", ""}));
  EXPECT_EQ(files(), 0u);
}

TEST_F(RunRequestsTest, ForAProfileSayRankKindAndTime) {
  auto request = PendingRequest::leave(
      RunFolder(folder_.string()),
      ProfileRequest{.rank = Rank{3}, .kind = ProfileKind::Wall, .time = milliseconds(250)});
  ASSERT_TRUE(request);
  const Taken taken = next();
  ASSERT_TRUE(taken.profile) << taken.profile.error().describe();
  EXPECT_EQ(taken.profile->rank, Rank{3});
  EXPECT_EQ(taken.profile->kind, ProfileKind::Wall);
  EXPECT_EQ(taken.profile->time, milliseconds(250));
}

TEST_F(RunRequestsTest, ForAProfileThatNobodyCanTakeAreErrors) {
  for (const char* text :
       {"", "[]", R"({"rank":-1,"kind":"cpu","time_ms":1})", R"({"kind":"cpu","time_ms":1})",
        R"({"rank":1,"kind":"gpu","time_ms":1})", R"({"rank":1,"kind":7,"time_ms":1})",
        R"({"rank":1,"kind":"cpu","time_ms":60001})", R"({"rank":1,"kind":"cpu","time_ms":0})",
        R"({"rank":1,"kind":"cpu","time_ms":9223372036854775807})"}) {
    std::ofstream(path(".profile-1")) << text;
    EXPECT_FALSE(next().profile) << text;
  }
}

TEST_F(RunRequestsTest, ForACheckpointAreAnsweredWithItsNumber) {
  auto request = PendingRequest::leave(RunFolder(folder_.string()), CheckpointNowRequest{});
  ASSERT_TRUE(request);
  const Taken taken = next();
  EXPECT_TRUE(taken.checkpoint);
  ASSERT_TRUE(answer_request(folder_.string(), taken.id, {.checkpoint = 7}));
  EXPECT_EQ(request->take_answer(), (RequestAnswer{.checkpoint = 7}));
}

TEST_F(RunRequestsTest, ForCommandsAreTakenFromNobodyElse) {
  const auto left = [&](const WorkerCall& call) {
    auto request = PendingRequest::leave(RunFolder(folder_.string()), call);
    EXPECT_TRUE(request);
    std::string name;
    for (const auto& entry : fs::directory_iterator(folder_)) name = entry.path();
    return std::pair(std::move(*request), name);
  };
  const WorkerCall command{.command = {"id"}}, function{.name = "f"};
  {
    const auto [request, name] = left(command);
    struct stat made {};
    ASSERT_EQ(::stat(name.c_str(), &made), 0);
    EXPECT_EQ(made.st_mode & 0777, 0600u);
    const Taken taken = next();
    ASSERT_TRUE(taken.call) << taken.call.error().message;
    EXPECT_EQ(taken.call->command, command.command);
  }
  for (const mode_t mode : {0620, 0602}) {
    const auto [request, name] = left(command);
    ASSERT_EQ(::chmod(name.c_str(), mode), 0);
    EXPECT_EQ(next().call.error().code, Errc::Permission) << mode;
  }
  {
    const auto [request, name] = left(command);
    fs::create_hard_link(name, name + ".other");
    EXPECT_EQ(next().call.error().code, Errc::Permission);
    fs::remove(name + ".other");
  }
  {  // kept back, and asked for again: under its name, later, or under another one
    const auto [request, name] = left(command);
    const std::string text = read_text(name);
    ASSERT_TRUE(next().call);
    const auto again = [&](const std::string& path) {
      std::ofstream(path) << text;
      ::chmod(path.c_str(), 0600);
    };
    again(folder_ / ".call-1");
    EXPECT_THAT(next().call.error().message, HasSubstr("another name"));
    again(name);
    const timespec old[2] = {{.tv_sec = ::time(nullptr) - 700, .tv_nsec = 0},
                             {.tv_sec = ::time(nullptr) - 700, .tv_nsec = 0}};
    ASSERT_EQ(::utimensat(AT_FDCWD, name.c_str(), old, 0), 0);
    EXPECT_THAT(next().call.error().message, HasSubstr("too old"));
  }
  if (::geteuid() != 0) GTEST_SKIP() << "only root gives files to others";
  for (const WorkerCall& call : {command, function}) {
    const auto [request, name] = left(call);
    ASSERT_EQ(::chown(name.c_str(), 65534, 65534), 0);
    EXPECT_EQ(next().call.has_value(), call.command.empty());
  }
}

TEST_F(RunRequestsTest, ForACommandAreTakenOnlyOnce) {
  const auto request =
      PendingRequest::leave(RunFolder(folder_.string()), WorkerCall{.command = {"id"}});
  ASSERT_TRUE(request);
  const std::string name = fs::directory_iterator(folder_)->path();
  const std::string text = read_text(name);
  std::vector<Result<WorkerCall>> taken;
  Scope scope(executor());
  run([&]() -> asio::awaitable<void> {
    RequestHandlers handlers;
    handlers.call = [&](const std::string&, Result<WorkerCall> call) {
      if (taken.empty()) {
        std::ofstream(name) << text;
        ::chmod(name.c_str(), 0600);
      }
      taken.push_back(std::move(call));
    };
    scope.spawn("watch", watch_requests(folder_.string(), std::move(handlers)));
    while (taken.size() < 2) (void)co_await pause_for(1ms);
    scope.cancel();
    co_await scope.join();
  });
  EXPECT_TRUE(taken[0]);
  EXPECT_THAT(taken[1].error().message, HasSubstr("was taken before"));
}

TEST_F(RunRequestsTest, ThatNobodyTakesLeaveNothing) {
  {
    const auto request = leave({});
    ASSERT_TRUE(request);
    EXPECT_EQ(files(), 1u);
  }
  EXPECT_EQ(files(), 0u);
}

TEST_F(RunRequestsTest, MayBeAnythingAndNobodyWaitsForThem) {
  ASSERT_EQ(::mkfifo(path(".stacks-1").c_str(), 0600), 0);
  EXPECT_TRUE(next().stacks.ranks.empty());
  std::ofstream(path(".stacks-2")) << std::string(3u << 20, '[');
  EXPECT_TRUE(next().stacks.ranks.empty());
  std::ofstream(path(".stacks-..")) << "[1]";  // no name of ours
  fs::create_directory(path(".stacks-4"));     // cannot be taken, so it is no request
  std::ofstream(path(".stacks-3")) << "[-1, 2, \"x\", 99999999999]";
  const Taken taken = next();
  EXPECT_EQ(taken.id, "3");
  EXPECT_EQ(taken.stacks.ranks, std::vector<Rank>{Rank{2}});
  EXPECT_TRUE(fs::exists(path(".stacks-..")));
  EXPECT_TRUE(fs::exists(path(".stacks-4")));
}

TEST_F(RunRequestsTest, HaveIdsOfBoundedLength) {
  const std::string longest(64, 'a');
  std::ofstream(path(".stacks-" + longest + "a")) << "[1]";
  std::ofstream(path(".stacks-" + longest)) << "[1]";
  EXPECT_EQ(next().id, longest);
  EXPECT_TRUE(fs::exists(path(".stacks-" + longest + "a")));
}

TEST_F(RunRequestsTest, OfVeryManySomeAreTakenLater) {
  for (int i = 0; i < 100; ++i) {
    std::ofstream(path(".stacks-" + std::to_string(i))) << "[1]";
    fs::create_directory(path(".profile-" + std::to_string(i)));  // cannot be taken
  }
  (void)next();
  EXPECT_EQ(files(), 184u);
}

TEST_F(RunRequestsTest, AnAnswerLeadsNowhereElse) {
  for (const char* text :
       {R"({"path":"attempts/../../secret","error":""})", R"({"path":"/etc/passwd","error":""})",
        R"({"path":"attempts//a"})", R"({"path":"spec.json"})", R"({"checkpoint":0})",
        R"({"error":7})", "[]", ""}) {
    auto request = leave({});
    ASSERT_TRUE(request);
    std::ofstream(path(".answer-" + next().id)) << text;
    EXPECT_EQ(request->take_answer(), (RequestAnswer{"", "its launcher's answer cannot be read"}))
        << text;
  }
  auto request = leave({});
  ASSERT_TRUE(request);
  ASSERT_TRUE(answer_request(folder_.string(), next().id, {"", "no room"}));
  EXPECT_EQ(request->take_answer(), (RequestAnswer{"", "no room"}));
}

TEST_F(RunRequestsTest, AnswersThatNobodyTakesGoAwayAndNothingElse) {
  for (const char* name : {".answer-1", ".answer-x y", ".stacks-1", "notes"}) {
    std::ofstream(path(name)) << "old";
    fs::last_write_time(path(name), fs::file_time_type::clock::now() - std::chrono::minutes(11));
  }
  std::ofstream(path(".answer-2")) << "new";

  ASSERT_TRUE(answer_request(folder_.string(), "3", {"attempts/000/a", ""}));

  EXPECT_FALSE(fs::exists(path(".answer-1")));
  for (const char* name : {".answer-x y", ".stacks-1", "notes", ".answer-2", ".answer-3"})
    EXPECT_TRUE(fs::exists(path(name))) << name;
  EXPECT_FALSE(answer_request(folder_.string(), "../3", {"attempts/000/a", ""}));
}

}  // namespace
}  // namespace train
