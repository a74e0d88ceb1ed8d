// Programs and web services that are told of a run's events (run_config.notify).
#include <gtest/gtest.h>
#include <signal.h>

#include <boost/json.hpp>

#include "tests/e2e/cluster.h"
#include "tests/fakes/http_server.h"

namespace train::e2e {
namespace {

using Words = std::vector<std::string>;

/// A command that appends its facts to the file `events`, one line of JSON each.
constexpr const char* kTell =
    "  notify:\n"
    "    - on: [started, restarted, hung, checkpoint, failed, finished, stopped]\n"
    "      command: [sh, -c, 'cat >>events; echo >>events; echo \"$TRAINRUN_TEXT\" >>texts']\n";

std::vector<boost::json::object> events_of(const Cluster& cluster) {
  return cluster.json_lines(cluster.read(cluster.path("events")));
}

Words names_of(const std::vector<boost::json::object>& events) {
  Words names;
  for (const boost::json::object& event : events) names.push_back(text_of(event, "event"));
  return names;
}

TEST(Notify, ACommandIsToldOfStartRestartAndEnd) {
  Cluster cluster;
  const std::string job = cluster.job("job", "command: 'test $TRAINRUN_ATTEMPT = 1 || exit 3'",
                                      std::string(kTell) + "  failure_config: {max_failures: 1}\n");
  ASSERT_EQ(cluster.run({job}), 0);

  const auto events = events_of(cluster);
  ASSERT_EQ(names_of(events), (Words{"started", "restarted", "finished"}));
  EXPECT_EQ(text_of(events[1], "attempt"), "1");
  EXPECT_TRUE(contains(text_of(events[1], "cause"), "rank 0 ")) << text_of(events[1], "cause");
  EXPECT_EQ(text_of(events[2], "run"), "job");
  EXPECT_EQ(text_of(events[2], "path"), cluster.run_dir("job"));
  EXPECT_EQ(text_of(events[2], "exit_code"), "0");
  const std::string texts = cluster.read(cluster.path("texts"));
  EXPECT_TRUE(
      texts.starts_with("run job started with 1 worker on 1 node\n"
                        "run job restarted with 1 worker on 1 node: rank 0 "))
      << texts;
}

TEST(Notify, ACommandIsToldOfCheckpointsAndOfAFailureWithItsCause) {
  Cluster cluster;
  const std::string job = cluster.job(
      "job",
      "command: [" + program("sdk_worker") +
          "]\ntrain_loop_config: {mode: epochs, epochs: 2, die_each_attempts: 1}\nscaling_config: "
          "{num_workers: 1, resources_per_worker: {CPU: 0}}",
      kTell);
  ASSERT_EQ(cluster.run({job}), 137);

  const auto events = events_of(cluster);
  ASSERT_EQ(names_of(events), (Words{"started", "checkpoint", "failed"}));
  EXPECT_TRUE(text_of(events[2], "cause").starts_with("rank 0 on ")) << text_of(events[2], "cause");
  EXPECT_EQ(text_of(events[2], "rank"), "0");
  EXPECT_EQ(text_of(events[2], "exit_code"), "137");
  EXPECT_EQ(text_of(events[1].at("checkpoint").as_object(), "name"), "checkpoint_000001");
  EXPECT_EQ(text_of(events[1].at("metrics").as_object(), "epoch"), "0");
}

TEST(Notify, AHangIsToldBeforeTheRunFails) {
  Cluster cluster;
  const std::string job =
      cluster.job("job",
                  "command: [" + program("hanging_worker") +
                      "]\ntrain_loop_config: {how: mutex}\nscaling_config: {num_workers: 2, "
                      "resources_per_worker: {CPU: 0}}",
                  std::string(kTell) + "  failure_config: {hang_timeout: 2s}\n");
  ASSERT_EQ(cluster.run({job}), 1);

  const auto events = events_of(cluster);
  ASSERT_EQ(names_of(events), (Words{"started", "hung", "failed"}));
  EXPECT_EQ(text_of(events[1], "rank"), "1");
  EXPECT_TRUE(contains(text_of(events[1], "text"), "run job hangs: rank 1 on "))
      << text_of(events[1], "text");
  EXPECT_EQ(text_of(events[2], "cause"), text_of(cluster.exit_json("job"), "cause"));
  EXPECT_TRUE(contains(text_of(events[2], "resume"), "train-run resume "));
}

TEST(Notify, AWebhookOfASecretIsToldWhereNobodyReadsIt) {
  Cluster cluster;
  fakes::HttpServer server([](const fakes::ReceivedRequest&) { return fakes::Reply{}; });
  const std::string job =
      cluster.job("job", "command: [" + program("plain_worker") + ", hang]",
                  "  notify: [{on: [started, stopped], webhook: env:CHAT_HOOK}]\n");
  Process& run =
      cluster.train_run({job}, {.env = {{"CHAT_HOOK", server.url("/T0/B0/very-secret-part")}}});
  ASSERT_TRUE(wait_until([&] { return server.requests().size() == 1; }));
  run.signal(SIGINT);
  ASSERT_EQ(run.wait(), 130);

  const auto requests = server.requests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[1].target, "/T0/B0/very-secret-part");
  const auto stopped = boost::json::parse(requests[1].body).as_object();
  EXPECT_EQ(text_of(stopped, "event"), "stopped");
  EXPECT_EQ(text_of(stopped, "cause"), "Ctrl-C");
  for (const char* file : {"spec.yaml", "spec.resolved.yaml", "train-run.log", "run.json"})
    EXPECT_FALSE(contains(cluster.read(cluster.run_dir("job") + "/" + file), "very-secret-part"))
        << file;
}

TEST(Notify, ARunEndsAlthoughNobodyCanBeTold) {
  Cluster cluster;
  const std::string job = cluster.job("job", "command: ['true']",
                                      "  notify: [{webhook: 'http://127.0.0.1:9/'}, {command: "
                                      "[./no_such_program]}]\n");
  Process& run = cluster.train_run({job});
  ASSERT_EQ(run.wait(), 0);
  EXPECT_TRUE(contains(run.out(),
                       "notification 'finished' did not reach ./no_such_program: cannot be "
                       "started: No such file or directory"))
      << run.out();
  EXPECT_TRUE(contains(run.out(), "did not reach the webhook at 127.0.0.1:9")) << run.out();
}

TEST(Notify, ASecretThatIsMissingIsSaidBeforeAnythingStarts) {
  Cluster cluster;
  const std::string job =
      cluster.job("job", "command: ['true']", "  notify: [{webhook: env:NO_SUCH_VARIABLE}]\n");
  Process& run = cluster.train_run({job});
  ASSERT_EQ(run.wait(), 78);
  EXPECT_TRUE(contains(run.err(),
                       "run_config.notify.webhook refers to the variable "
                       "NO_SUCH_VARIABLE, which is not set"))
      << run.err();
  EXPECT_FALSE(exists(cluster.run_dir("job")));
}

}  // namespace
}  // namespace train::e2e
