#include "launcher/cluster/notify/event_notifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <mutex>

#include "launcher/cluster/notify/notify_command.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/http_server.h"
#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

using fakes::HttpServer;
using fakes::ReceivedRequest;
using fakes::Reply;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<std::string> kAll{"started", "hung", "checkpoint", "failed", "finished"};

class EventNotifierTest : public testing::Test {
 protected:
  EventNotifier::Options options() {
    return {.folder = folder_.path(),
            .environment = {{"PATH", "/usr/bin:/bin"}},
            .say = [this](const std::string& text) {
              const std::lock_guard lock(mutex_);
              said_.push_back(text);
            }};
  }
  std::vector<std::string> said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }
  NotifyTarget shell(const std::string& script) const {
    return {.on = kAll, .command = {"sh", "-c", script}};
  }
  std::string file(const std::string& name) const { return text_of(folder_.path() + "/" + name); }

  TempFolder folder_;
  std::mutex mutex_;
  std::vector<std::string> said_;
};

Notification event(NotifiedEvent kind) { return {.event = kind, .run_id = "id", .run = "vit"}; }

std::vector<std::string> events_in(const std::vector<ReceivedRequest>& requests) {
  std::vector<std::string> events;
  for (const ReceivedRequest& request : requests)
    events.emplace_back(boost::json::parse(request.body).at("event").as_string());
  return events;
}

TEST_F(EventNotifierTest, ACommandGetsTheFactsAsVariablesAndOnItsInput) {
  EventNotifier notifier({shell("cat >input; echo \"$TRAINRUN_EVENT of $TRAINRUN_RUN\" >said")},
                         options());
  notifier.notify(event(NotifiedEvent::Failed));
  notifier.finish(seconds(60));

  EXPECT_EQ(file("said"), "failed of vit\n");
  const auto json = boost::json::parse(file("input")).as_object();
  EXPECT_EQ(json.at("event").as_string(), "failed");
  EXPECT_EQ(json.at("id").as_string(), "id-1");
  EXPECT_THAT(said(), IsEmpty());
}

TEST_F(EventNotifierTest, TextsOfWorkersAreNoCodeForACommand) {
  EventNotifier notifier({shell("printf %s \"$TRAINRUN_CAUSE\" >cause")}, options());
  Notification hostile = event(NotifiedEvent::Failed);
  hostile.cause = "$(touch owned); `touch owned`";
  notifier.notify(hostile);
  notifier.finish(seconds(60));

  EXPECT_EQ(file("cause"), hostile.cause);
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/owned"));
}

TEST_F(EventNotifierTest, OnlyTheEventsOfItsRuleReachATarget) {
  NotifyTarget target = shell("echo $TRAINRUN_EVENT >>said");
  target.on = {"hung", "finished"};
  EventNotifier notifier({target}, options());

  EXPECT_TRUE(notifier.wants(NotifiedEvent::Hung));
  EXPECT_FALSE(notifier.wants(NotifiedEvent::Failed));
  for (const auto kind : {NotifiedEvent::Started, NotifiedEvent::Hung, NotifiedEvent::Finished})
    notifier.notify(event(kind));
  notifier.finish(seconds(60));

  EXPECT_EQ(file("said"), "hung\nfinished\n");
}

TEST_F(EventNotifierTest, AFailingCommandIsSaidOnceUntilItWorksAgain) {
  EventNotifier notifier(
      {shell("test -e works; how=$?; echo no mail server; echo >>done; test $how = 0 || exit 3")},
      options());
  const auto tell = [&](std::size_t count) {
    notifier.notify(event(NotifiedEvent::Checkpoint));
    return fakes::eventually([&] { return file("done").size() == count; });
  };
  const std::string failure =
      "notification 'checkpoint' did not reach sh: ended with 3: no mail server";
  ASSERT_TRUE(tell(1) && tell(2));
  std::ofstream(folder_.path() + "/works") << "yes";
  ASSERT_TRUE(tell(3));
  std::filesystem::remove(folder_.path() + "/works");
  ASSERT_TRUE(tell(4));
  notifier.finish(seconds(60));
  EXPECT_THAT(said(), ElementsAre(failure, failure));
}

TEST_F(EventNotifierTest, ACommandThatCannotBeStartedIsSaid) {
  EventNotifier notifier({{.on = kAll, .command = {"./no_such_program"}}}, options());
  notifier.notify(event(NotifiedEvent::Failed));
  notifier.finish(seconds(60));
  EXPECT_THAT(said(), ElementsAre("notification 'failed' did not reach ./no_such_program: cannot "
                                  "be started: No such file or directory"));
}

TEST_F(EventNotifierTest, ACommandThatHangsIsKilledWithItsChildrenAtTheEnd) {
  EventNotifier notifier({shell("sleep 1000 & echo $! >child; wait")}, options());
  notifier.notify(event(NotifiedEvent::Failed));
  ASSERT_TRUE(fakes::eventually([&] { return file("child").ends_with('\n'); }));

  notifier.finish(milliseconds(50));

  const pid_t child = std::stoi(file("child"));
  EXPECT_TRUE(fakes::eventually([&] {
    std::string state;  // it may be a zombie that nobody reaps
    std::ifstream stat(fmt::format("/proc/{}/stat", child));
    stat >> state >> state >> state;
    return state.empty() || state == "Z";
  }));
  EXPECT_TRUE(fakes::eventually([&] { return !said().empty(); }));
}

TEST_F(EventNotifierTest, ACommandEndsAtItsDeadline) {
  const NotifyCommand command{{"sleep", "1000"}, folder_.path(), {}, ""};
  const auto end = std::chrono::steady_clock::now() + milliseconds(20);
  const auto ended = run_notify_command(command, [end] { return end; });
  ASSERT_TRUE(ended.has_error());
  EXPECT_EQ(ended.error(), (Error{Errc::Timeout, "did not end in time and was killed"}));
}

TEST_F(EventNotifierTest, ACommandThatWritesWithoutEndKeepsOnlyItsLastLine) {
  const NotifyCommand command{{"sh", "-c", "yes | head -c 3000000; echo; echo the end; exit 1"},
                              folder_.path(),
                              {{"PATH", "/usr/bin:/bin"}},
                              ""};
  const auto ended = run_notify_command(command, [] { return TimePoint::max(); });
  ASSERT_TRUE(ended.has_error());
  EXPECT_EQ(ended.error().message, "ended with 1: the end");
}

TEST_F(EventNotifierTest, AWebhookGetsTheFactsByPost) {
  HttpServer server([](const ReceivedRequest&) { return Reply{204, ""}; });
  EventNotifier notifier({{.on = kAll, .url = server.url("/hook?key=1")}}, options());
  notifier.notify(event(NotifiedEvent::Started));
  notifier.notify(event(NotifiedEvent::Finished));
  notifier.finish(seconds(60));

  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[0].method, "POST");
  EXPECT_EQ(requests[0].target, "/hook?key=1");
  EXPECT_EQ(requests[0].headers.at("content-type"), "application/json");
  EXPECT_THAT(events_in(requests), ElementsAre("started", "finished"));
  EXPECT_THAT(said(), IsEmpty());
}

TEST_F(EventNotifierTest, AWebhookThatIsBusyIsAskedAgain) {
  int count = 0;
  HttpServer server([&](const ReceivedRequest&) { return Reply{++count == 1 ? 503 : 200}; });
  EventNotifier notifier({{.on = kAll, .url = server.url("/")}}, options());
  notifier.notify(event(NotifiedEvent::Failed));
  notifier.finish(seconds(60));

  EXPECT_THAT(events_in(server.requests()), ElementsAre("failed", "failed"));
  EXPECT_THAT(said(), IsEmpty());
}

TEST_F(EventNotifierTest, AWebhookThatRefusesIsAskedOnceAndNotNamedInFull) {
  HttpServer server([](const ReceivedRequest&) { return Reply{403}; });
  EventNotifier notifier({{.on = kAll, .url = server.url("/T0/B0/secret")}}, options());
  notifier.notify(event(NotifiedEvent::Failed));
  notifier.finish(seconds(60));

  EXPECT_EQ(server.requests().size(), 1u);
  EXPECT_THAT(said(), ElementsAre(fmt::format("notification 'failed' did not reach the webhook at "
                                              "127.0.0.1:{}: it answers with status 403",
                                              server.port())));
}

TEST_F(EventNotifierTest, AnAbsentWebhookDelaysTheEndNoLongerThanItMay) {
  std::uint16_t port = 0;
  {
    port = HttpServer([](const ReceivedRequest&) { return Reply{}; }).port();
  }
  EventNotifier notifier({{.on = kAll, .url = fmt::format("http://127.0.0.1:{}/", port)}},
                         options());
  notifier.notify(event(NotifiedEvent::Hung));
  notifier.notify(event(NotifiedEvent::Failed));

  notifier.finish(milliseconds(50));  // returns although tries are left

  EXPECT_TRUE(fakes::eventually([&] { return !said().empty(); }));
}

TEST_F(EventNotifierTest, ASlowTargetHoldsUpNoOther) {
  HttpServer server([](const ReceivedRequest&) { return Reply{}; });
  EventNotifier notifier({shell("sleep 1000"), NotifyTarget{.on = kAll, .url = server.url("/")}},
                         options());
  notifier.notify(event(NotifiedEvent::Started));
  notifier.notify(event(NotifiedEvent::Failed));
  EXPECT_TRUE(fakes::eventually([&] { return server.requests().size() == 2; }));
}

TEST_F(EventNotifierTest, TheOldestOfTooManyAreDroppedAndCounted) {
  EventNotifier notifier({shell("echo >>began; until test -e go; do sleep 0.01; done")}, options());
  notifier.notify(event(NotifiedEvent::Started));
  ASSERT_TRUE(fakes::eventually([&] { return file("began").size() == 1; }));
  for (std::size_t i = 0; i < kNotificationsQueuedMax + 7; ++i)
    notifier.notify(event(NotifiedEvent::Checkpoint));
  std::ofstream(folder_.path() + "/go") << "go";
  notifier.finish(seconds(60));

  EXPECT_EQ(file("began").size(), 1 + kNotificationsQueuedMax);
  EXPECT_THAT(said(), ElementsAre("notifications: 7 of them did not reach sh in time"));
}

TEST(NotifyTargets, ResolveSecretsAndRefuseWhatIsNoUrl) {
  const std::vector<NotifyRule> rules{{.command = {"./tell.sh"}},
                                      {.webhook = "https://hooks.example.com/a"},
                                      {.on = {"started"}, .webhook = "env:HOOK"}};
  const auto targets = notify_targets(rules, {{"HOOK", "https://u:p@chat.example.com:8/x?y"}});
  ASSERT_TRUE(targets);
  ASSERT_EQ(targets->size(), 3u);
  EXPECT_EQ((*targets)[0].name(), "./tell.sh");
  EXPECT_THAT((*targets)[0].on, ElementsAre("hung", "failed", "finished"));
  EXPECT_EQ((*targets)[1].name(), "the webhook at hooks.example.com");
  EXPECT_EQ((*targets)[2].name(), "the webhook at chat.example.com:8");
  EXPECT_EQ((*targets)[2].url, "https://u:p@chat.example.com:8/x?y");

  EXPECT_EQ(notify_targets(rules, {}).error(),
            (Error{Errc::InvalidSpec,
                   "run_config.notify.webhook refers to the variable HOOK, which is not set",
                   "set it where train-run is started"}));
  EXPECT_EQ(notify_targets(rules, {{"HOOK", "file:///etc/passwd"}}).error().code,
            Errc::InvalidSpec);
}

}  // namespace
}  // namespace train
