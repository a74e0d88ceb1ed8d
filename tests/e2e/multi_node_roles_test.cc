// Jobs of several roles: what each worker finds, how they end, fail and are found again together,
// on one node and on several.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <boost/json.hpp>

#include "tests/e2e/cluster.h"
#include "tests/e2e/multi_node.h"

namespace train::e2e {
namespace {

constexpr const char* kServe =
    "trap 'echo served until told' TERM; echo serves; sleep 1000 & wait; exit 0";

/// A script that prints what torchrun's users read of a worker's place.
std::string say_script(const Cluster& cluster) {
  return cluster.write(
      "say.sh",
      "echo place $ROLE_NAME $ROLE_RANK of $ROLE_WORLD_SIZE, $RANK of $WORLD_SIZE, local "
      "$LOCAL_RANK of $LOCAL_WORLD_SIZE, kind ${KIND:-none}\n"
      "came=" +
          cluster.path("came") +
          "\n"
          "if [ $ROLE_NAME = trainer ]; then\n"
          "  until [ $(ls $came 2>/dev/null | wc -l) = $((WORLD_SIZE - ROLE_WORLD_SIZE)) ]; do\n"
          "    sleep 0.02; done\n"
          "  exit 0\n"
          "fi\n"
          "mkdir -p $came; : >$came/$RANK\n" +
          std::string(kServe));
}

/// Two sdk_workers that report `epochs` epochs with checkpoints, wait before the epochs of
/// `hold_at`, and a server beside them.
std::string training(const Cluster& cluster, int epochs, const std::string& hold_at,
                     const std::string& run_config = "") {
  return cluster.job(
      "job",
      fmt::format("roles:\n"
                  "  - {{name: trainer, command: [{}], num_workers: 2, resources_per_worker: "
                  "{{CPU: 0}}}}\n"
                  "  - {{name: server, command: [sh, -c, \"{}\"], resources_per_worker: {{CPU: "
                  "0}}}}\n"
                  "train_loop_config: {{mode: epochs, epochs: {}, on_stop: true, hold_file: '{}', "
                  "hold_at: {}}}\n",
                  program("sdk_worker"), kServe, epochs, cluster.path("go"), hold_at),
      run_config);
}
bool committed(const Cluster& cluster, std::size_t count) {
  return wait_until([&] { return cluster.checkpoints("job").size() >= count; });
}

TEST(Roles, EachWorkerKnowsItsPlaceAmongAllAndInItsRole) {
  Cluster cluster;
  const std::string script = say_script(cluster);
  Process& run = cluster.train_run({cluster.job(
      "job", "roles:\n  - {name: trainer, command: [sh, " + script +
                 "], num_workers: 2, resources_per_worker: {CPU: 0}}\n  - {name: reader, command: "
                 "[sh, " +
                 script +
                 "], num_workers: 2, resources_per_worker: {CPU: 0}, env: {KIND: fast}}\nenv: "
                 "{KIND: slow}\n")});

  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();

  for (const char* line : {" 0 trainer] place trainer 0 of 2, 0 of 4, local 0 of 2, kind slow",
                           " 1 trainer] place trainer 1 of 2, 1 of 4, local 1 of 2, kind slow",
                           " 2 reader] place reader 0 of 2, 2 of 4, local 0 of 2, kind fast",
                           " 3 reader] place reader 1 of 2, 3 of 4, local 1 of 2, kind fast"})
    EXPECT_TRUE(contains(run.out(), line)) << run.out();
  EXPECT_TRUE(contains(run.out(), "2 workers and 2 of role reader on 1 node")) << run.out();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST(Roles, ServeUntilAllThatTrainHaveEnded) {
  Cluster cluster;
  Process& run = cluster.train_run({training(cluster, 3, "[]")});

  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), " 2 server] served until told")) << run.out();
  EXPECT_EQ(cluster.checkpoints("job").size(), 3u);  // of the two that train, without the server
  EXPECT_EQ(text_of(cluster.run_json("job"), "world_size"), "2");
  EXPECT_TRUE(nothing_left(cluster));
}

TEST(Roles, AreRestartedTogetherAndTheCauseIsNamed) {
  Cluster cluster;
  Process& run =
      cluster.train_run({training(cluster, 4, "[2]", "  failure_config: {max_failures: 1}\n")});
  ASSERT_TRUE(committed(cluster, 2));
  ASSERT_TRUE(wait_until([&] { return cluster.worker(2).has_value(); }));
  const std::set<pid_t> before = cluster.worker_pids();
  send_signal(*cluster.worker(2), SIGKILL);
  ASSERT_TRUE(wait_until([&] { return contains(run.out(), "restarting"); })) << run.out();
  cluster.write("go-1-2", "");

  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out() + run.err(), "rank 2 (server 0) on ")) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out() + run.err(), "SIGKILL")) << run.out() << run.err();
  int begun = 0;
  for (const auto& event : cluster.journal("job"))
    begun += text_of(event, "event") == "attempt_started";
  EXPECT_EQ(begun, 2);
  EXPECT_TRUE(nothing_left(cluster));
}

TEST(Roles, AreFoundAgainByTheNextLauncher) {
  Cluster cluster;
  Process& first = cluster.train_run({training(cluster, 4, "[2]")});
  ASSERT_TRUE(committed(cluster, 2));
  ASSERT_TRUE(wait_until([&] { return cluster.worker_pids().size() == 4; }));  // with its sleep
  const std::set<pid_t> workers = cluster.worker_pids();
  first.signal(SIGKILL);
  ASSERT_EQ(first.wait(), 137);
  Process& second = cluster.train_run({"resume", cluster.run_dir("job")});
  ASSERT_TRUE(wait_until([&] { return contains(second.out(), "still running"); }));
  EXPECT_EQ(cluster.worker_pids(), workers);
  cluster.write("go-0-2", "");

  EXPECT_EQ(second.wait(), 0) << second.out() << second.err();
  EXPECT_TRUE(contains(second.out(), "served until told")) << second.out();
  expect_one_attempt(cluster, "job", 2, 4);
  EXPECT_TRUE(nothing_left(cluster));
}

TEST(Roles, AStopEndsAllAfterTheCheckpointOfThoseThatTrain) {
  Cluster cluster;
  Process& run = cluster.train_run({training(cluster, 1000, "[]")});
  ASSERT_TRUE(committed(cluster, 1));

  run.signal(SIGINT);

  EXPECT_EQ(run.wait(), 130) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), "served until told")) << run.out();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST(Roles, TheSdkRefusesWhatOnlyThoseThatTrainDo) {
  Cluster cluster;
  Process& run = cluster.train_run({cluster.job(
      "job",
      "roles:\n  - {name: trainer, command: [sleep, '100'], resources_per_worker: {CPU: "
      "0}}\n  - {name: reader, command: [" +
          program("sdk_worker") +
          "], resources_per_worker: {CPU: 0}}\ntrain_loop_config: {mode: epochs, epochs: "
          "2}\n")});

  EXPECT_NE(run.wait(), 0);
  EXPECT_TRUE(contains(run.out() + run.err(),
                       "workers of role 'reader' run beside those that "
                       "train"))
      << run.out() << run.err();
  EXPECT_TRUE(contains(run.out() + run.err(), "rank 1 (reader 0) on ")) << run.err();
  EXPECT_TRUE(nothing_left(cluster));
}

TEST(Roles, OnSeveralNodesAWorkerOfAnotherRoleIsOnEach) {
  Cluster cluster;
  Nodes nodes(cluster, 3);
  nodes.start_all();
  const std::string script = say_script(cluster);
  // The second role fills what the first leaves, and the third is alone on the last node.
  Process& run = nodes.train_run(
      cluster.job("job",
                  "roles:\n  - {name: trainer, command: [sh, " + script +
                      "], num_workers: 2}\n  - {name: reader, command: [sh, " + script +
                      "], num_workers: 2}\n  - {name: evaluator, command: [sh, " + script +
                      "], resources_per_worker: {CPU: 2}}\nscaling_config: {placement_strategy: "
                      "SPREAD, resources_per_worker: {CPU: 1}}\n"),
      3);

  ASSERT_EQ(run.wait(), 0) << run.out() << run.err();
  for (const char* line : {"[n0 0 trainer] place trainer 0 of 2, 0 of 5, local 0 of 1",
                           "[n1 1 trainer] place trainer 1 of 2, 1 of 5, local 0 of 1",
                           "[n0 2 reader] place reader 0 of 2, 2 of 5, local 0 of 1",
                           "[n1 3 reader] place reader 1 of 2, 3 of 5, local 0 of 1",
                           "[n2 4 evaluator] place evaluator 0 of 1, 4 of 5, local 0 of 1"})
    EXPECT_TRUE(contains(run.out(), line)) << run.out() << run.err();
}

TEST(Roles, ANodeWithoutOneThatTrainsIsMissedWhenItDies) {
  Cluster cluster;
  Nodes nodes(cluster, 3);
  nodes.start_all();
  Process& run = nodes.train_run(
      cluster.job("job",
                  "roles:\n  - {name: trainer, command: [sh, -c, \"sleep 1000\"], num_workers: 2, "
                  "resources_per_worker: {CPU: 2}}\n  - {name: reader, command: [sh, -c, \"" +
                      std::string(kServe) + "\"], resources_per_worker: {CPU: 2}}\n",
                  "  failure_config: {max_failures: 1}\n"),
      3);
  ASSERT_TRUE(wait_until([&] { return cluster.worker(2).has_value(); }));
  int where = -1;
  for (int node = 0; node < 3; ++node)
    for (const pid_t pid : nodes.workers_on(node))
      if (pid == *cluster.worker(2)) where = node;
  ASSERT_GE(where, 0);
  const auto supervisor = nodes.supervisor_on(where);
  ASSERT_TRUE(supervisor.has_value());

  send_signal(*supervisor, SIGKILL);

  ASSERT_TRUE(wait_until([&] {
    int begun = 0;
    for (const auto& event : cluster.journal("job"))
      begun += text_of(event, "event") == "attempt_started";
    return begun == 2 && cluster.worker_pids().size() >= 3;
  })) << run.out()
      << run.err();
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 130);
}

}  // namespace
}  // namespace train::e2e
