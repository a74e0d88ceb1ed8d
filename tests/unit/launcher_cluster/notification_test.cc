#include "launcher/cluster/notify/notification.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "lib/base/secrets.h"
#include "tests/fakes/golden.h"

namespace train {
namespace {

using std::chrono::milliseconds;

Notification failed() {
  Notification n{.event = NotifiedEvent::Failed,
                 .number = 3,
                 .run_id = "4f2a",
                 .run = "vit",
                 .path = "/nfs/runs/vit",
                 .host = "login-1",
                 .attempt = 2,
                 .world_size = 8,
                 .nnodes = 2,
                 .duration = milliseconds(3'723'500),
                 .cause = "rank 3 on n2 was killed by SIGSEGV (segmentation fault)",
                 .rank = 3,
                 .node = "n2",
                 .exit_code = 139,
                 .resume_command = "train-run resume /nfs/runs/vit"};
  n.at = parse_utc("2026-11-26T10:00:00.000000Z");
  n.checkpoint = CheckpointSummary{"checkpoint_000007", "/nfs/runs/vit/checkpoints/c", "acc", 0.9};
  n.metrics = {{"loss", 0.25}, {"epoch", std::int64_t{7}}, {"note", std::string("ok")}};
  return n;
}

TEST(Notification, SaysAllFactsAsJson) {
  fakes::expect_golden(std::string(TRAIN_SOURCE_DIR) + "/tests/golden/report/notification.json",
                       notification_json(failed()) + "\n");
}

TEST(Notification, SaysThatFactsAreNotThere) {
  Notification n{.event = NotifiedEvent::Finished, .run = "vit", .duration = milliseconds(850)};

  const auto json = boost::json::parse(notification_json(n)).as_object();

  EXPECT_EQ(json.at("text").as_string(), "run vit finished after 850 ms");
  for (const char* key : {"cause", "rank", "node", "exit_code", "checkpoint", "resume"})
    EXPECT_TRUE(json.at(key).is_null()) << key;
  EXPECT_TRUE(json.at("metrics").as_object().empty());
}

TEST(Notification, GivesTheSameFactsAsVariables) {
  EXPECT_EQ(notification_environment(failed()),
            (std::map<std::string, std::string>{
                {"TRAINRUN_ATTEMPT", "2"},
                {"TRAINRUN_CAUSE", "rank 3 on n2 was killed by SIGSEGV (segmentation fault)"},
                {"TRAINRUN_CHECKPOINT", "/nfs/runs/vit/checkpoints/c"},
                {"TRAINRUN_DURATION_S", "3723.500"},
                {"TRAINRUN_EVENT", "failed"},
                {"TRAINRUN_EXIT_CODE", "139"},
                {"TRAINRUN_HOST", "login-1"},
                {"TRAINRUN_NNODES", "2"},
                {"TRAINRUN_NODE", "n2"},
                {"TRAINRUN_RANK", "3"},
                {"TRAINRUN_RESUME", "train-run resume /nfs/runs/vit"},
                {"TRAINRUN_RUN", "vit"},
                {"TRAINRUN_RUN_ID", "4f2a"},
                {"TRAINRUN_RUN_PATH", "/nfs/runs/vit"},
                {"TRAINRUN_TEXT",
                 "run vit failed after 1 h 2 min: rank 3 on n2 was killed by SIGSEGV "
                 "(segmentation fault)"},
                {"TRAINRUN_TIME", "2026-11-26T10:00:00.000000Z"},
                {"TRAINRUN_WORLD_SIZE", "8"}}));
}

TEST(Notification, HasOneLineOfTextForEachEvent) {
  Notification n = failed();
  const auto text_of = [&](NotifiedEvent event) {
    n.event = event;
    return notification_text(n);
  };
  n.cause = "why";
  EXPECT_EQ(text_of(NotifiedEvent::Started), "run vit started with 8 workers on 2 nodes");
  EXPECT_EQ(text_of(NotifiedEvent::Restarted),
            "run vit restarted with 8 workers on 2 nodes from checkpoint_000007: why");
  EXPECT_EQ(text_of(NotifiedEvent::Hung), "run vit hangs: why");
  EXPECT_EQ(text_of(NotifiedEvent::Checkpoint), "run vit committed checkpoint_000007 (acc 0.9)");
  EXPECT_EQ(text_of(NotifiedEvent::Stopped), "run vit was stopped after 1 h 2 min: why");
  n.world_size = n.nnodes = 1;
  EXPECT_EQ(text_of(NotifiedEvent::Started), "run vit started with 1 worker on 1 node");
}

TEST(Notification, HidesSecretsAndCutsWhatOthersWrote) {
  learn_secret("HF_TOKEN", "hf_verysecretvalue");
  Notification n = failed();
  n.cause = "login with hf_verysecretvalue failed" + std::string(10'000, 'x') + '\0' + "\xff";
  n.metrics = {{"note", "hf_verysecretvalue" + std::string(10'000, 'x')}};

  const std::string json = notification_json(n);
  const auto variables = notification_environment(n);

  EXPECT_EQ(json.find("hf_verysecretvalue"), std::string::npos);
  EXPECT_LT(json.size(), 4 * kFactBytesMax);
  EXPECT_TRUE(variables.at("TRAINRUN_CAUSE").starts_with("login with <redacted:HF_TOKEN> failed"));
  EXPECT_EQ(variables.at("TRAINRUN_CAUSE").size(), kFactBytesMax);
}

TEST(Notification, NamesNoMoreThanAHundredMetrics) {
  Notification n = failed();
  n.metrics.assign(1000, {"m", 1.0});
  for (std::size_t i = 0; i < n.metrics.size(); ++i) n.metrics[i].first += std::to_string(i);
  const auto json = boost::json::parse(notification_json(n)).as_object();
  EXPECT_EQ(json.at("metrics").as_object().size(), kNotifiedMetricsMax);
}

TEST(Notification, TellsTheEndAsTheSummaryDoes) {
  RunSummary summary{.outcome = Outcome::Failed, .reason = "no restart is left"};
  summary.attempts = {{.attempt = 0}, {.attempt = 1}};
  summary.world_size = 4;
  summary.nnodes = 3;
  WorkerFailure worker{.rank = 2, .node = "n1"};
  worker.end.status = 3;
  summary.root = root_cause_of(worker, 0);

  Notification n = end_notification(summary);
  EXPECT_EQ(n.event, NotifiedEvent::Failed);
  EXPECT_EQ(n.cause, summary.root->text.cause);
  EXPECT_EQ(n.rank, 2);
  EXPECT_EQ(n.node, "n1");
  EXPECT_EQ(n.exit_code, 3);
  EXPECT_EQ(n.attempt, 1u);
  EXPECT_EQ(n.world_size, 4);
  EXPECT_EQ(n.nnodes, 3);

  summary = {.outcome = Outcome::Interrupted, .reason = "Ctrl-C"};
  n = end_notification(summary);
  EXPECT_EQ(n.event, NotifiedEvent::Stopped);
  EXPECT_EQ(n.cause, "Ctrl-C");
  EXPECT_EQ(n.exit_code, 130);

  summary = {.outcome = Outcome::Succeeded, .reason = "epoch reached 3"};
  n = end_notification(summary);
  EXPECT_EQ(n.event, NotifiedEvent::Finished);
  EXPECT_EQ(n.cause, "");
}

}  // namespace
}  // namespace train
