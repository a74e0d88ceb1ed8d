// Which rows the ranks get, while ingest workers, ranks and all that watches them die or stand
// still: at each step those of an undisturbed run without ingest workers.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <boost/json.hpp>
#include <filesystem>
#include <map>
#include <sstream>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

constexpr int kRows = 6000, kFiles = 6, kGlobalBatch = 96, kRanks = 2;
using Ids = std::vector<std::int64_t>;
/// (epoch, step) → the ids of all ranks, sorted.
using Steps = std::map<std::pair<int, int>, Ids>;

class IngestAudit : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(cluster.path("data"));
    for (int file = 0; file < kFiles; ++file) {
      std::string text = "id,text\n";
      for (int row = 0; row < kRows / kFiles; ++row) {
        const int id = file * (kRows / kFiles) + row;
        text += fmt::format("{},{}\n", id, std::string(200, static_cast<char>('a' + id % 26)));
      }
      cluster.write(fmt::format("data/part-{}.csv", file), text);
    }
  }
  Process& start(const std::string& name, const std::string& ingest) {
    return cluster.train_run({cluster.job(
        name,
        fmt::format("command: [{}]\n"
                    "train_loop_config: {{log: '{}', global_batch: {}, epochs: 2}}\n"
                    "scaling_config: {{num_workers: {}, resources_per_worker: {{CPU: 0}}}}\n"
                    "datasets:\n  train: {{format: csv, path: '{}', shuffle: {{seed: 5}}, "
                    "map: [{{rename: {{from: id}}}}]}}\n{}",
                    program("audit_worker"), cluster.path(name), kGlobalBatch, kRanks,
                    cluster.path("data/*.csv"), ingest),
        "  failure_config: {max_failures: -1, backoff: {initial: 10ms}}\n"
        "  checkpoint_config: {num_to_keep: 2}\n")});
  }
  /// Return what a run has logged. A step that was done again must have had the same rows.
  Steps logged(const std::string& name) {
    std::map<std::tuple<int, int, int>, Ids> by_rank;
    for (int rank = 0; rank < kRanks; ++rank) {
      std::istringstream lines(cluster.read(cluster.path(fmt::format("{}-{}", name, rank))));
      for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        int epoch = -1, step = -1;
        words >> epoch >> step;
        Ids ids;
        for (std::int64_t id = 0; words >> id;) ids.push_back(id);
        const auto [known, fresh] = by_rank.emplace(std::tuple{epoch, step, rank}, ids);
        if (!fresh)
          EXPECT_EQ(known->second, ids) << name << ": epoch " << epoch << " step " << step;
      }
    }
    Steps steps;
    for (const auto& [at, ids] : by_rank) {
      Ids& all = steps[{std::get<0>(at), std::get<1>(at)}];
      all.insert(all.end(), ids.begin(), ids.end());
      std::sort(all.begin(), all.end());
    }
    return steps;
  }
  bool has_done(const std::string& name, std::size_t lines) {
    return wait_until([&] {
      const std::string text = cluster.read(cluster.path(name + "-0"));
      return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) >= lines;
    });
  }
  /// Return the processes of the program that have no rank.
  std::vector<pid_t> ingest_workers() {
    std::vector<pid_t> pids;
    const auto ranks = cluster.worker_pids();
    for (const Seen& seen : cluster.processes(program("audit_worker")))
      if (!ranks.contains(seen.pid)) pids.push_back(seen.pid);
    return pids;
  }
  static std::string ingest(int workers) {
    return fmt::format(
        "dataset_config: {{train: {{ingest_workers: {}, ingest: {{timeout: 2s, "
        "resources_per_worker: {{CPU: 0}}}}}}}}\n",
        workers);
  }
  void strike(const std::string& whom, Process*& run) {
    const auto signal_all = [&](const std::string& what, int number) {
      const auto found = cluster.processes(what);
      ASSERT_FALSE(found.empty()) << what;
      send_signal(found.front().pid, number);
    };
    if (whom == "IngestWorkerKilled" || whom == "IngestWorkerStopped") {
      ASSERT_TRUE(wait_until([&] { return !ingest_workers().empty(); }));
      send_signal(ingest_workers().front(), whom == "IngestWorkerKilled" ? SIGKILL : SIGSTOP);
    } else if (whom == "AllIngestWorkersKilled") {
      for (const pid_t pid : ingest_workers()) send_signal(pid, SIGKILL);
    } else if (whom == "RankKilled") {
      send_signal(cluster.worker(1).value_or(-1), SIGKILL);
    } else if (whom == "SupervisorKilled") {
      signal_all(" supervise --run ", SIGKILL);
    } else if (whom == "TraindKilled") {
      signal_all("traind --private", SIGKILL);
    } else if (whom == "LauncherKilled") {
      run->signal(SIGKILL);
      ASSERT_EQ(run->wait(), 137);
      for (const pid_t pid : ingest_workers()) send_signal(pid, SIGKILL);
      run = &cluster.train_run({"resume", cluster.run_dir("disturbed")});
    }
  }

  Cluster cluster;
};

TEST_P(IngestAudit, TheSameRowsAtTheSameSteps) {
  Process& plain = start("plain", "");
  ASSERT_EQ(plain.wait(), 0) << plain.out() << plain.err();
  const Steps expected = logged("plain");
  ASSERT_EQ(expected.size(), 2u * ((kRows + kGlobalBatch - 1) / kGlobalBatch));

  Process* run = &start("disturbed", ingest(2));
  for (const std::size_t after : {10u, 40u}) {
    ASSERT_TRUE(has_done("disturbed", after)) << run->out() << run->err();
    strike(GetParam(), run);
  }
  const auto code = run->wait();

  EXPECT_EQ(code, 0) << run->out() << run->err();
  EXPECT_TRUE(logged("disturbed") == expected);
  EXPECT_TRUE(nothing_left(cluster));
}

INSTANTIATE_TEST_SUITE_P(Disturbances, IngestAudit,
                         testing::Values("Nothing", "IngestWorkerKilled", "IngestWorkerStopped",
                                         "AllIngestWorkersKilled", "RankKilled", "SupervisorKilled",
                                         "TraindKilled", "LauncherKilled"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace train::e2e
