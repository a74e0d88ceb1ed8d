// Workers' output: on train-run's own output with a prefix, in a file per rank, and without loss.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <regex>
#include <sstream>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

std::string plain_job(const Cluster& cluster, const std::string& words, int workers) {
  return cluster.job("job", "command: [" + program("plain_worker") + ", " + words +
                                "]\nscaling_config: {num_workers: " + std::to_string(workers) +
                                ", resources_per_worker: {CPU: 0}}");
}

std::string log_of(const Cluster& cluster, int rank, const std::string& stream) {
  char folder[64];
  std::snprintf(folder, sizeof folder, "/attempts/000/ranks/%04d/", rank);
  return cluster.read(cluster.run_dir("job") + folder + stream + ".log");
}

std::string this_host() {
  std::string name = read_file("/proc/sys/kernel/hostname");
  return name.substr(0, name.find('\n'));
}

TEST(Output, LinesCarryNodeAndRankAndFilesHoldThemAsTheyAre) {
  Cluster cluster;

  Process& run = cluster.train_run(
      {plain_job(cluster, "print, to the output, complain, to the errors", 2), "--no-fold"});

  ASSERT_EQ(run.wait(), 0);
  for (const int rank : {0, 1}) {
    const std::string prefix = "[" + this_host() + " " + std::to_string(rank) + "] ";
    EXPECT_TRUE(contains(run.out(), prefix + "to the output\n")) << run.out();
    EXPECT_TRUE(contains(run.out(), prefix + "to the errors\n")) << run.out();
    EXPECT_EQ(log_of(cluster, rank, "stdout"), "to the output\n");
    EXPECT_EQ(log_of(cluster, rank, "stderr"), "to the errors\n");
  }
}

TEST(Output, OfAMillionLinesOfTwoWorkersNoneIsLost) {
  Cluster cluster;
  std::string expected[2];
  for (int rank = 0; rank < 2; ++rank) {
    for (int line = 0; line < 500'000; ++line)
      expected[rank] += "line " + std::to_string(line) + " of rank " + std::to_string(rank) + "\n";
  }

  Process& run = cluster.train_run({plain_job(cluster, "lines, 500000", 2)});

  ASSERT_EQ(run.wait(), 0);
  EXPECT_TRUE(log_of(cluster, 0, "stdout") == expected[0]);
  EXPECT_TRUE(log_of(cluster, 1, "stdout") == expected[1]);
  const std::string out = run.out();
  std::istringstream lines(out);
  int shown = 0;
  for (std::string line; std::getline(lines, line);) shown += contains(line, "] line ");
  EXPECT_EQ(shown, 1'000'000);
}

TEST(Output, TheLastLinesBeforeAKillAreThere) {
  Cluster cluster;

  Process& run =
      cluster.train_run({plain_job(cluster, "lines, 10000, print, the very last, signal, 9", 1)});

  ASSERT_EQ(run.wait(), 137);
  const std::string log = log_of(cluster, 0, "stdout");
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 10001);
  EXPECT_TRUE(log.ends_with("line 9999 of rank 0\nthe very last\n"));
  EXPECT_TRUE(contains(run.out(), "    | the very last\n"))
      << run.out().substr(run.out().size() - 1000);
}

TEST(Output, AnEndWithoutANewlineIsShown) {
  Cluster cluster;

  Process& run = cluster.train_run({plain_job(cluster, "write, loss 0.5", 1)});

  ASSERT_EQ(run.wait(), 0);
  EXPECT_TRUE(contains(run.out(), " 0] loss 0.5\n")) << run.out();
  EXPECT_EQ(log_of(cluster, 0, "stdout"), "loss 0.5");
}

TEST(Output, OfSixtyFourWorkers) {
  Cluster cluster;

  Process& run = cluster.train_run({plain_job(cluster, "print, here", 64)});

  ASSERT_EQ(run.wait(), 0);
  for (int rank = 0; rank < 64; ++rank)
    EXPECT_TRUE(contains(run.out(), " " + std::to_string(rank) + "] here\n")) << rank;
}

TEST(Output, AsJsonIsALineOfJsonEach) {
  Cluster cluster;

  Process& run =
      cluster.train_run({plain_job(cluster, "print, hello, exit, 5", 2), "--output", "json"});

  ASSERT_EQ(run.wait(), 5);
  const auto events = cluster.json_lines(run.out());
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(text_of(events.back(), "event"), "end");
  EXPECT_EQ(text_of(events.back(), "code"), "5");
  EXPECT_EQ(std::count_if(events.begin(), events.end(),
                          [](const auto& event) { return text_of(event, "event") == "end"; }),
            1);
  const int root =
      std::stoi(text_of(events.back(), "root_rank"));     // the launcher may stop the other first
  EXPECT_EQ(log_of(cluster, root, "stdout"), "hello\n");  // output is in the files only
}

TEST(Output, AsJsonARestartTellsItsBackoff) {
  Cluster cluster;
  Process& run = cluster.train_run(
      {cluster.job("job", "command: \"exit 5\"\n",
                   "  failure_config: {max_failures: 2, backoff: {initial: 50ms, max: 50ms}}\n"),
       "--output", "json"});
  ASSERT_EQ(run.wait(), 5);

  std::vector<double> waits;
  for (const auto& event : cluster.json_lines(run.out())) {
    if (text_of(event, "event") == "restart")
      waits.push_back(event.at("wait_s").to_number<double>());
  }
  ASSERT_EQ(waits.size(), 2u) << run.out();
  EXPECT_EQ(waits[0], 0.0);  // the first restart is immediate
  EXPECT_GT(waits[1], 0.0);
  EXPECT_LE(waits[1], 0.05);
}

TEST(Output, TheLogOfTrainRunSaysWhatHappenedToWhom) {
  Cluster cluster;

  Process& run = cluster.train_run({plain_job(cluster, "exit, 3", 1), "--log-format", "json",
                                    "--set", "run_config.log_level=debug"});

  ASSERT_EQ(run.wait(), 3);
  bool died = false, ended = false;
  std::istringstream lines(cluster.read(cluster.run_dir("job") + "/train-run.log"));
  for (std::string line; std::getline(lines, line);) {
    const boost::json::object event = boost::json::parse(line).as_object();
    EXPECT_EQ(event.at("run"), "job") << line;
    if (event.at("msg") == "worker ended") {
      died = event.at("rank") == 0 && event.at("attempt") == 0 && event.at("level") == "error";
    }
    ended |= event.at("msg") == "run ended" && event.at("outcome") == "errored";
  }
  EXPECT_TRUE(died);
  EXPECT_TRUE(ended);  // all logged output is there
}

TEST(Output, WhatAFullDiskDoesNotTakeIsCountedAndTheRunGoesOn) {
  Cluster cluster;
  const std::string spool = cluster.path("spool"), socket = cluster.path("rt2/traind.sock");
  ASSERT_EQ(::mkdir(spool.c_str(), 0700), 0);
  Process& probe = cluster.start({"unshare", "--mount", "mount", "-t", "tmpfs", "none", spool});
  if (::geteuid() != 0 || probe.wait() != 0)
    GTEST_SKIP() << "SKIPPED: needs root, and a right to mount";
  Process& daemon = cluster.traind(
      {"--allow-root", "--runtime-dir", cluster.path("rt2"), "--spool-dir", spool, "--listen",
       "unix:" + socket},
      {.env = {},
       .prefix = {"unshare", "--mount", "sh", "-c",
                  "mount -t tmpfs -o size=1m,mode=0700 none " + spool + " && exec \"$@\"", "sh"},
       .cwd = ""});
  ASSERT_TRUE(wait_until([&] { return contains(daemon.err(), "msg=listening"); })) << daemon.err();
  constexpr std::size_t kBytes = 8u << 20;

  Process& run = cluster.train_run(
      {cluster.job("job", "command: \"yes 0123456789abcde | head -c " + std::to_string(kBytes) +
                              "\"\nscaling_config: {num_workers: 1}\n"),
       "--hosts", "unix:" + socket});

  EXPECT_EQ(run.wait(), 0) << run.err();
  const std::string log = log_of(cluster, 0, "stdout");
  const std::regex note(R"(\n\[trainrun: (\d+) bytes of output are lost: [^\n]*: )"
                        R"(No space left on device\]\n)");
  std::size_t lost = 0, notes = 0, bytes = log.size();
  for (std::sregex_iterator at(log.begin(), log.end(), note), end; at != end; ++at, ++notes) {
    lost += std::stoul((*at)[1]);
    bytes -= static_cast<std::size_t>(at->length());
  }
  EXPECT_GT(notes, 0u);
  EXPECT_GT(lost, kBytes / 2);
  EXPECT_EQ(bytes + lost, kBytes) << notes;
  daemon.signal(SIGTERM);
  EXPECT_EQ(daemon.wait(), 0);
}

}  // namespace
}  // namespace train::e2e
