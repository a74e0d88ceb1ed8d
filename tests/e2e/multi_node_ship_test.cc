// Code that only train-run's machine has: nodes in network namespaces, which see an empty folder in
// place of the job's.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "tests/e2e/multi_node.h"

namespace train::e2e {
namespace {

namespace fs = std::filesystem;

class Ship : public ThreeNodes {
 protected:
  void SetUp() override {
    ThreeNodes::SetUp();
    if (IsSkipped()) return;
    fs::create_directories(project());
    write("build/worker", "#!/bin/sh\necho \"says $(cat conf/app.txt) in $PWD\"\n" + after());
    ::chmod((project() + "/build/worker").c_str(), 0755);
    write(".gitignore", "build\nsecret\n");
    write("conf/app.txt", "first");
    write("secret", "nobody gets it");
  }
  /// What the program does then: wait until the test says how attempt 0, 1, … is to end.
  std::string after() const {
    return fmt::format(
        "while [ ! -e {0}-$TORCHELASTIC_RESTART_COUNT ]; do sleep 0.02; done\n"
        "exit $(cat {0}-$TORCHELASTIC_RESTART_COUNT)\n",
        cluster->path("end"));
  }
  std::string project() const { return cluster->path("project"); }
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(project() + "/" + path).parent_path());
    std::ofstream(project() + "/" + path) << text;
  }
  void end(int attempt, int code) const {
    const std::string fresh = cluster->write("end.new", fmt::format("{}\n", code));
    fs::rename(fresh, cluster->path(fmt::format("end-{}", attempt)));
  }
  void start_nodes(int count) const {
    const std::string hide = fmt::format("mount -t tmpfs none {} && exec \"$0\" \"$@\"", project());
    for (int node = 0; node < count; ++node)
      nodes->start(node, {"--resource", "CPU=2"}, {"unshare", "-m", "sh", "-c", hide});
  }
  std::string job(const std::string& more = "",
                  const std::string& run_config = "  failure_config: {max_failures: 3}\n") const {
    return cluster->job(
        "job",
        fmt::format("command: [./build/worker]\nworking_dir: '{}'\n"
                    "backend: none\nscaling_config: {{num_workers: 2, "
                    "placement_strategy: STRICT_SPREAD}}\n{}",
                    project(), contains(more, "ship: ") ? more : "ship: true\n" + more),
        run_config);
  }
  static bool says(const Process& run, const std::string& text, int times = 1) {
    return wait_until([&] {
      int found = 0;
      const std::string all = run.out() + run.err();
      for (std::size_t at = all.find(text); at != std::string::npos; at = all.find(text, at + 1))
        ++found;
      return found >= times;
    });
  }
  /// Return what runs have left in the node's data folder.
  std::vector<std::string> left_on(int node) const {
    std::vector<std::string> names;
    std::error_code ec;
    for (const auto& entry :
         fs::directory_iterator(cluster->path(fmt::format("sp-n{}/data", node)), ec))
      if (entry.is_directory()) names.push_back(entry.path().filename());
    return names;
  }
};

TEST_F(Ship, NodesWithoutTheCodeRunIt) {
  start_nodes(2);
  end(0, 0);
  Process& run = nodes->train_run(job(), 2);

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), "code: 3 files (")) << run.out();
  EXPECT_TRUE(says(run, "says first in ", 2)) << run.out();
  EXPECT_FALSE(contains(run.out(), "in " + project())) << run.out();
  const auto code = fs::directory_iterator(cluster->run_dir("job") + "/code")->path();
  EXPECT_TRUE(fs::exists(code / "build/worker"));
  EXPECT_FALSE(fs::exists(code / "secret"));
  for (int node = 0; node < 2; ++node)
    EXPECT_TRUE(wait_until([&] { return left_on(node).empty(); }));
}

TEST_F(Ship, ARunKeepsTheCodeThatItBeganWith) {
  start_nodes(2);
  Process& run = nodes->train_run(job(), 2);
  ASSERT_TRUE(says(run, "says first in ", 2)) << run.out() << run.err();

  write("conf/app.txt", "second");
  end(1, 0);
  end(0, 1);

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(says(run, "says first in ", 4)) << run.out();
  EXPECT_FALSE(contains(run.out(), "says second")) << run.out();
}

TEST_F(Ship, WhatAWorkerHasBrokenIsWholeAgainAtTheRestart) {
  write("build/worker",
        "#!/bin/sh\necho \"says $(cat conf/app.txt) in $PWD\"\n"
        "if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then\n"
        "  echo broken >conf/app.txt; rm build/worker; echo mine >output; exit 1\nfi\n");
  start_nodes(2);
  Process& run = nodes->train_run(job(), 2);

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(says(run, "says first in ", 3)) << run.out();
  EXPECT_FALSE(contains(run.out(), "says broken")) << run.out();
}

// A worker that puts links in place of its files and folders, to others' files, has the restart
// write nothing there.
TEST_F(Ship, ARestartWritesNothingThroughLinksOfWorkers) {
  cluster->write("others.txt", "theirs");
  fs::create_directories(cluster->path("others"));
  write("build/worker",
        fmt::format("#!/bin/sh\necho \"says $(cat conf/app.txt) in $PWD\"\n"
                    "if [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then\n"
                    "  ln -sf {0}/others.txt build/worker; rm -r conf; ln -s {0}/others conf\n"
                    "  rm .gitignore; mkdir -p .gitignore/x; exit 1\nfi\n",
                    cluster->path("")));
  start_nodes(2);
  Process& run = nodes->train_run(job(), 2);

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(says(run, "says first in ", 3)) << run.out();
  EXPECT_EQ(cluster->read(cluster->path("others.txt")), "theirs");
  EXPECT_TRUE(fs::is_empty(cluster->path("others")));
}

// Workers of attempt 0 change a file; those that then begin to stand by leave it so.
TEST_F(Ship, ProcessesThatBeginToStandByChangeNothingUnderWorkers) {
  fs::copy_file(program("sdk_worker"), project() + "/build/sdk_worker");
  write("build/worker",
        "#!/bin/sh\n[ -n \"$TRAINRUN_STANDBY\" ] || echo mine >conf/app.txt\n"
        "exec build/sdk_worker\n");
  start_nodes(2);
  Process& run = nodes->train_run(
      cluster->job("job",
                   fmt::format("command: [build/worker, build/sdk_worker]\nworking_dir: '{}'\n"
                               "ship: true\nscaling_config: {{num_workers: 2, standby_workers: 2, "
                               "placement_strategy: STRICT_SPREAD, resources_per_worker: {{CPU: "
                               "0}}}}\n"
                               "train_loop_config: {{mode: epochs, epochs: 4, hold_at: [2], "
                               "hold_file: '{}'}}\n",
                               project(), cluster->path("go")),
                   "  failure_config: {max_failures: 1}\n"),
      2);
  ASSERT_TRUE(wait_until([&] { return cluster->standbys().size() == 2; })) << run.err();

  for (int node = 0; node < 2; ++node) {
    int mine = 0;
    for (const auto& entry :
         fs::recursive_directory_iterator(cluster->path(fmt::format("sp-n{}/data", node))))
      if (entry.path().filename() == "app.txt") mine += cluster->read(entry.path()) == "mine\n";
    EXPECT_EQ(mine, 1) << node;
  }
  send_signal(cluster->worker(1).value(), SIGKILL);
  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), "(2 from standby)")) << run.out();
}

TEST_F(Ship, AResumedRunTakesTheCodeAsItIsNow) {
  start_nodes(2);
  Process& run = nodes->train_run(job("", "  failure_config: {max_failures: 0}\n"), 2);
  ASSERT_TRUE(says(run, "says first in ", 2)) << run.out() << run.err();
  end(0, 1);
  EXPECT_EQ(run.wait(), 1) << run.out() << run.err();

  write("conf/app.txt", "second");
  fs::remove(cluster->path("end-0"));
  end(1, 0);
  end(0, 0);
  Process& resumed = nodes->resume("job");

  EXPECT_EQ(resumed.wait(), 0) << resumed.out() << resumed.err();
  EXPECT_TRUE(says(resumed, "says second in ", 2)) << resumed.out();
}

TEST_F(Ship, WorkersOutliveTheirLauncherAndLaterAttemptsHaveTheSameCode) {
  start_nodes(2);
  Process& run = nodes->train_run(job(), 2);
  ASSERT_TRUE(says(run, "says first in ", 2)) << run.out() << run.err();
  run.signal(SIGKILL);
  ASSERT_EQ(run.wait(), 137);

  write("conf/app.txt", "second");
  Process& resumed = nodes->resume("job");
  ASSERT_TRUE(says(resumed, "nothing is restarted")) << resumed.out() << resumed.err();
  end(1, 0);
  end(0, 1);

  EXPECT_EQ(resumed.wait(), 0) << resumed.out() << resumed.err();
  EXPECT_TRUE(says(resumed, "says first in ", 2)) << resumed.out();
  EXPECT_FALSE(contains(resumed.out(), "says second")) << resumed.out();
}

// Its files may have grown meanwhile: that is no reason to give up workers that live.
TEST_F(Ship, ARunThatHasBegunIsNotRefusedForFilesThatHaveGrown) {
  start_nodes(2);
  Process& run = nodes->train_run(job("ship: {max: 1MiB}\n"), 2);
  ASSERT_TRUE(says(run, "says first in ", 2)) << run.out() << run.err();
  run.signal(SIGKILL);
  ASSERT_EQ(run.wait(), 137);

  write("data/large", std::string(3u << 20, 'a'));
  Process& resumed = nodes->resume("job");
  ASSERT_TRUE(says(resumed, "nothing is restarted")) << resumed.out() << resumed.err();
  end(0, 0);
  EXPECT_EQ(resumed.wait(), 0) << resumed.out() << resumed.err();
}

TEST_F(Ship, CodeThatIsLostIsMadeAnewForLaterAttempts) {
  start_nodes(2);
  Process& run = nodes->train_run(job(), 2);
  ASSERT_TRUE(says(run, "says first in ", 2)) << run.out() << run.err();
  run.signal(SIGKILL);
  ASSERT_EQ(run.wait(), 137);

  fs::remove_all(cluster->run_dir("job") + "/code");
  write("conf/app.txt", "second");
  Process& resumed = nodes->resume("job");
  ASSERT_TRUE(says(resumed, "code: 3 files")) << resumed.out() << resumed.err();
  end(1, 0);
  end(0, 1);

  EXPECT_EQ(resumed.wait(), 0) << resumed.out() << resumed.err();
  EXPECT_TRUE(says(resumed, "the code that the workers began with is lost"));
  EXPECT_TRUE(says(resumed, "says second in ", 2)) << resumed.out();
}

TEST_F(Ship, WorkersGoOnThoughTheirCodeIsLostAndCannotBeMadeAnew) {
  start_nodes(2);
  Process& run = nodes->train_run(job(), 2);
  ASSERT_TRUE(says(run, "says first in ", 2)) << run.out() << run.err();
  run.signal(SIGKILL);
  ASSERT_EQ(run.wait(), 137);

  fs::remove_all(cluster->run_dir("job") + "/code");
  fs::remove_all(project());
  Process& resumed = nodes->resume("job");
  ASSERT_TRUE(says(resumed, "ship: ")) << resumed.out() << resumed.err();
  end(0, 0);

  EXPECT_EQ(resumed.wait(), 0) << resumed.out() << resumed.err();
  EXPECT_TRUE(says(resumed, "nothing is restarted")) << resumed.out();
}

TEST_F(Ship, TheSetupMakesWhatIsShippedAndEachNodesSetupHasIt) {
  start_nodes(2);
  end(0, 0);
  Process& run = nodes->train_run(
      job("setup: ['echo built >conf/app.txt']\n"
          "per_node_setup: {command: 'cp conf/app.txt conf/node.txt && cat conf/node.txt'}\n"),
      2);

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(says(run, "says built in ", 2)) << run.out();
  EXPECT_TRUE(contains(cluster->read(cluster->run_dir("job") + "/attempts/000/nodes/n0/setup.log"),
                       "built"));
}

// The end of the run removes the copy on the node, with what the node's setup has made in it.
TEST_F(Ship, TheNodesSetupRunsAgainIfItsCopyOfTheCodeIsGone) {
  write("build/worker", "#!/bin/sh\necho \"says $(cat made.txt) in $PWD\"\n" + after());
  start_nodes(2);
  const std::string more = "per_node_setup: {command: 'echo ready >made.txt'}\n";
  Process& run = nodes->train_run(job(more, "  failure_config: {max_failures: 0}\n"), 2);
  ASSERT_TRUE(says(run, "says ready in ", 2)) << run.out() << run.err();
  end(0, 1);
  EXPECT_EQ(run.wait(), 1) << run.out() << run.err();
  for (int node = 0; node < 2; ++node)
    ASSERT_TRUE(wait_until([&] { return left_on(node).empty(); }));

  fs::remove(cluster->path("end-0"));
  end(1, 0);
  end(0, 0);
  Process& resumed = nodes->resume("job");

  EXPECT_EQ(resumed.wait(), 0) << resumed.out() << resumed.err();
  EXPECT_TRUE(says(resumed, "says ready in ", 2)) << resumed.out();
}

TEST_F(Ship, WorkersOnStandbyAndAValidationHaveTheCode) {
  fs::copy_file(program("sdk_worker"), project() + "/build/sdk_worker");
  write("conf/validate.sh",
        "printf '{\"whole\": %d}' $(wc -c <conf/app.txt) >$TRAINRUN_RESULT_FILE");
  start_nodes(2);
  Process& run = nodes->train_run(
      cluster->job("job",
                   fmt::format("command: [build/sdk_worker]\nworking_dir: '{}'\nship: true\n"
                               "scaling_config: {{num_workers: 2, standby_workers: 2, "
                               "placement_strategy: STRICT_SPREAD, resources_per_worker: {{CPU: "
                               "0}}}}\n"
                               "train_loop_config: {{mode: epochs, epochs: 4, hold_at: [2], "
                               "hold_file: '{}'}}\n",
                               project(), cluster->path("go")),
                   "  failure_config: {max_failures: 1}\n  checkpoint_config: {validation: {every: "
                   "1, command: [sh, conf/validate.sh]}}\n"),
      2);
  ASSERT_TRUE(wait_until([&] { return cluster->standbys().size() == 2; })) << run.err();
  send_signal(cluster->worker(1).value(), SIGKILL);

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), "(2 from standby)")) << run.out();
  EXPECT_TRUE(says(run, "validated: whole=5", 4)) << run.out();
}

TEST_F(Ship, CodeThatIsTooLargeIsRefusedWithItsFolders) {
  start_nodes(1);
  write("data/large", std::string(3u << 20, 'a'));
  Process& run = nodes->train_run(
      cluster->job("job", fmt::format("command: [./build/worker]\nworking_dir: '{}'\n"
                                      "ship: {{max: 1MiB}}\n",
                                      project())),
      1);

  EXPECT_EQ(run.wait(), 78) << run.out() << run.err();
  EXPECT_TRUE(contains(run.err(), "the largest: data (3.0 MiB)")) << run.err();
  EXPECT_FALSE(fs::exists(cluster->run_dir("job") + "/code")) << run.err();
}

TEST_F(Ship, ANodeWithoutRoomSaysSo) {
  write("data/large", std::string(40u << 20, 'a'));
  const std::string small =
      fmt::format("mkdir -p {0} && mount -t tmpfs -o size=30m none {0} && exec \"$0\" \"$@\"",
                  cluster->path("small"));
  nodes->start(0, {"--resource", "CPU=2", "--data-dir", cluster->path("small/data")},
               {"unshare", "-m", "sh", "-c", small});
  Process& run = nodes->train_run(
      cluster->job("job",
                   fmt::format("command: [./build/worker]\nworking_dir: '{}'\nship: true\n"
                               "scaling_config: {{num_workers: 1}}\n",
                               project()),
                   "  failure_config: {max_start_failures: 0}\n"),
      1);

  EXPECT_NE(run.wait(), 0);
  EXPECT_TRUE(contains(run.out() + run.err(), "are missing of it")) << run.out() << run.err();
}

}  // namespace
}  // namespace train::e2e
