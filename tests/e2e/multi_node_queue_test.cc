// Runs that share nodes wait for them in a queue.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <boost/json.hpp>

#include "tests/e2e/multi_node.h"

namespace train::e2e {
namespace {

/// Two nodes with two cores each, and runs whose workers claim one core each, write the run's name
/// into the file "order", and wait for the file "end-NAME".
class MultiNodeQueue : public ::testing::Test {
 protected:
  std::string job(const std::string& name, int workers, const std::string& run_config = "") {
    return cluster.job(
        name,
        fmt::format("command: '[ $RANK = 0 ] && echo {0} >> {1}; while ! [ -e {2} ]; do sleep "
                    "0.05; done'\nscaling_config: {{num_workers: {3}}}\n",
                    name, cluster.path("order"), cluster.path("end-" + name), workers),
        run_config);
  }
  Process& run(const std::string& name, int workers, const std::vector<std::string>& more = {}) {
    return nodes.train_run(job(name, workers), 2, more);
  }
  /// Start a run, and return once its workers run.
  Process& runs(const std::string& name, int workers) {
    Process& started = run(name, workers);
    EXPECT_TRUE(wait_until([&] { return contains(order(), name); })) << started.err();
    return started;
  }
  /// Start a run, and return once it is in the queue of both nodes.
  Process& waits(const std::string& name, int workers, const std::vector<std::string>& more = {}) {
    Process& started = run(name, workers, more);
    EXPECT_TRUE(wait_until([&] { return kept_on(name) == 2; })) << started.err();
    return started;
  }
  void end(const std::string& name) { cluster.write("end-" + name, ""); }
  std::string order() const { return cluster.read(cluster.path("order")); }
  std::vector<std::string> ask(const std::string& output) const {
    return {"queue", "--hosts", nodes.hosts(2), trust[0], trust[1], "--output", output};
  }
  boost::json::array queue() {
    Process& asked = cluster.train_run(ask("json"));
    EXPECT_EQ(asked.wait(), 0) << asked.err();
    return boost::json::parse(asked.out()).at("runs").as_array();
  }
  /// Return the place of a run that waits, or 0.
  std::int64_t turn_of(const std::string& name) {
    for (const auto& run : queue()) {
      if (run.at("run").as_string() == name && run.as_object().contains("turn"))
        return run.at("turn").as_int64();
    }
    return 0;
  }

  /// Return how many nodes keep room for a run.
  std::size_t kept_on(const std::string& name) {
    for (const auto& run : queue())
      if (run.at("run").as_string() == name) return run.at("room_kept_on").as_array().size();
    return 0;
  }

  Cluster cluster;
  Nodes nodes{cluster, 2};
  std::vector<std::string> trust{"--token-file", cluster.path("token")};
};

TEST_F(MultiNodeQueue, ALargeRunHasItsTurnBeforeASmallOneThatCameLater) {
  nodes.start_all();
  Process& first = runs("first", 2);
  Process& large = waits("large", 4);
  Process& small = waits("small", 1);
  EXPECT_EQ(turn_of("large"), 1);
  EXPECT_EQ(turn_of("small"), 2);
  EXPECT_TRUE(wait_until([&] { return contains(small.out(), "the run large ("); })) << small.out();

  Process& shown = cluster.train_run(ask("text"));
  EXPECT_EQ(shown.wait(), 0);
  EXPECT_TRUE(contains(shown.out(), "first")) << shown.out();
  EXPECT_TRUE(contains(shown.out(), "has workers")) << shown.out();
  EXPECT_TRUE(contains(shown.out(), "waits: 2")) << shown.out();

  end("first");
  EXPECT_EQ(first.wait(), 0);
  EXPECT_TRUE(wait_until([&] { return turn_of("large") == 0 && turn_of("small") == 1; }))
      << large.err();
  end("large");
  EXPECT_EQ(large.wait(), 0) << large.err();
  end("small");
  EXPECT_EQ(small.wait(), 0) << small.err();
  EXPECT_EQ(order(), "first\nlarge\nsmall\n");
  EXPECT_TRUE(wait_until([&] { return queue().empty(); }));
}

TEST_F(MultiNodeQueue, ARunTakesWhatThoseBeforeItCannotUse) {
  nodes.start(0, {"--resource", "CPU=2"});
  nodes.start(1, {"--resource", "CPU=2", "--resource", "disk=1"});
  Process& first = runs("first", 3);  // all of n0 or n1, and one core of the other
  Process& large = waits("large", 4);
  // A worker that claims no core, only what the others do not ask for.
  Process& other =
      run("other", 1, {"--set", "scaling_config.resources_per_worker={CPU: 0, disk: 1}"});
  EXPECT_TRUE(wait_until([&] { return contains(order(), "other"); })) << other.err();
  EXPECT_EQ(turn_of("large"), 1);

  for (const char* name : {"first", "large", "other"}) end(name);
  EXPECT_EQ(first.wait(), 0);
  EXPECT_EQ(large.wait(), 0);
  EXPECT_EQ(other.wait(), 0);
}

TEST_F(MultiNodeQueue, AHigherPriorityGoesFirst) {
  nodes.start_all();
  Process& first = runs("first", 4);
  Process& usual = waits("usual", 4);
  Process& urgent = waits("urgent", 4, {"--priority", "5"});
  EXPECT_EQ(turn_of("urgent"), 1);
  EXPECT_EQ(turn_of("usual"), 2);

  for (const char* name : {"first", "usual", "urgent"}) end(name);
  EXPECT_EQ(first.wait(), 0);
  EXPECT_EQ(usual.wait(), 0);
  EXPECT_EQ(urgent.wait(), 0);
  EXPECT_EQ(order(), "first\nurgent\nusual\n");
}

TEST_F(MultiNodeQueue, ARunThatRestartsKeepsItsRoomThoughAnotherWaitsWithAHigherPriority) {
  nodes.start_all();
  Process& first = nodes.train_run(
      cluster.job("first",
                  fmt::format("command: 'echo first >> {0}; while ! [ -e {1} ]; do sleep 0.05; "
                              "done; exit $((1 - $TORCHELASTIC_RESTART_COUNT))'\n"
                              "scaling_config: {{num_workers: 1, "
                              "resources_per_worker: {{CPU: 2}}}}\n",
                              cluster.path("order"), cluster.path("end-first")),
                  "  failure_config: {max_failures: 1}\n"),
      2);
  ASSERT_TRUE(wait_until([&] { return contains(order(), "first"); })) << first.err();
  Process& urgent = waits("urgent", 4, {"--priority", "5"});
  end("urgent");
  end("first");  // its first attempt fails, its second one does not

  EXPECT_EQ(first.wait(), 0) << first.err();
  EXPECT_EQ(urgent.wait(), 0) << urgent.err();
  EXPECT_EQ(order(), "first\nfirst\nurgent\n");
}

TEST_F(MultiNodeQueue, ALauncherThatDiesHoldsNobodyUpAndItsRunGetsItsPlaceBack) {
  nodes.start_all();
  Process& first = runs("first", 3);
  Process& large = waits("large", 4);
  Process& small = waits("small", 1);
  large.signal(SIGKILL);
  EXPECT_TRUE(wait_until([&] { return contains(order(), "small"); })) << small.err();

  Process& late = waits("late", 4);
  Process& again = nodes.resume("large");
  EXPECT_TRUE(wait_until([&] { return turn_of("large") == 1; })) << again.err();
  EXPECT_EQ(turn_of("late"), 2);
  for (const char* name : {"first", "small", "large", "late"}) end(name);
  EXPECT_EQ(first.wait(), 0);
  EXPECT_EQ(small.wait(), 0);
  EXPECT_EQ(again.wait(), 0) << again.err();
  EXPECT_EQ(late.wait(), 0) << late.err();
  EXPECT_EQ(order(), "first\nsmall\nlarge\nlate\n");
}

TEST_F(MultiNodeQueue, ARunThatNeedsMoreThanThereIsHoldsNobodyUp) {
  nodes.start(0);  // the other one does not answer
  Process& large = run("large", 4);
  EXPECT_TRUE(wait_until([&] { return contains(large.out(), "waiting: "); })) << large.err();
  Process& small = runs("small", 2);
  end("small");
  EXPECT_EQ(small.wait(), 0) << small.err();
  EXPECT_TRUE(large.running());

  nodes.start(1);
  end("large");
  EXPECT_EQ(large.wait(), 0) << large.err();
}

TEST_F(MultiNodeQueue, OwnersShareTheNodes) {
  const auto certs = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {built("traind"), "certs"});
    EXPECT_EQ(cluster.start(words).wait(), 0);
  };
  certs({"ca", "--cluster", "lab"});
  certs({"node", "n0", "n1"});
  certs({"launcher", "ada", "bob"});
  for (int node = 0; node < 2; ++node) {
    const std::string name = fmt::format("n{}", node);
    cluster.traind({"--listen", nodes.endpoint(node), "--allow-root", "--node-name", name, "--tls",
                    cluster.path(name), "--runtime-dir", cluster.path("rt-" + name), "--spool-dir",
                    cluster.path("sp-" + name), "--resource", "CPU=1"});
  }
  const auto start = [&](const std::string& name, const std::string& owner) -> Process& {
    return cluster.train_run(
        {job(name, 1), "--hosts", nodes.hosts(2), "--tls", cluster.path(owner)});
  };
  trust = {"--tls", cluster.path("bob")};
  Process& a1 = start("a1", "ada");
  ASSERT_TRUE(wait_until([&] { return contains(order(), "a1"); })) << a1.err();
  Process& a2 = start("a2", "ada");
  ASSERT_TRUE(wait_until([&] { return contains(order(), "a2"); })) << a2.err();
  Process& a3 = start("a3", "ada");
  ASSERT_TRUE(wait_until([&] { return kept_on("a3") == 2; })) << a3.err();
  Process& b1 = start("b1", "bob");
  ASSERT_TRUE(wait_until([&] { return kept_on("b1") == 2; })) << b1.err();

  end("a1");  // Ada still has a node, and Bob has none
  EXPECT_EQ(a1.wait(), 0);
  ASSERT_TRUE(wait_until([&] { return contains(order(), "b1"); })) << b1.err();
  for (const char* name : {"a2", "a3", "b1"}) end(name);
  EXPECT_EQ(a2.wait(), 0);
  EXPECT_EQ(a3.wait(), 0);
  EXPECT_EQ(b1.wait(), 0);
  EXPECT_EQ(order(), "a1\na2\nb1\na3\n");
}

}  // namespace
}  // namespace train::e2e
