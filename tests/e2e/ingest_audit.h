// Which rows ranks get at each step (programs/audit_worker.cc), with and without ingest workers.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "tests/e2e/cluster.h"

namespace train::e2e {

class AuditedRows {
 public:
  static constexpr int kRows = 6000, kFiles = 6, kGlobalBatch = 96, kRanks = 2;
  static constexpr std::size_t kSteps = 2 * std::size_t{(kRows + kGlobalBatch - 1) / kGlobalBatch};
  using Ids = std::vector<std::int64_t>;
  /// (epoch, step) → the ids of all ranks, sorted.
  using Steps = std::map<std::pair<int, int>, Ids>;

  /// Write the dataset.
  explicit AuditedRows(Cluster& cluster) : cluster_(cluster) {
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

  /// Return the spec of a run that reads it in two epochs. `scaling`: more of scaling_config.
  /// `maps`: more maps, and what follows them in the dataset.
  std::string job(const std::string& name, const std::string& ingest,
                  const std::string& scaling = "resources_per_worker: {CPU: 0}",
                  const std::string& maps = "]") const {
    return cluster_.job(
        name,
        fmt::format("command: [{}]\n"
                    "train_loop_config: {{log: '{}', global_batch: {}, epochs: 2}}\n"
                    "scaling_config: {{num_workers: {}, {}}}\n"
                    "datasets:\n  train: {{format: csv, path: '{}', shuffle: {{seed: 5}}, "
                    "map: [{{rename: {{from: id}}}}{}}}\n{}",
                    program("audit_worker"), cluster_.path(name), kGlobalBatch, kRanks, scaling,
                    cluster_.path("data/*.csv"), maps, ingest),
        "  failure_config: {max_failures: -1, backoff: {initial: 10ms}}\n"
        "  checkpoint_config: {num_to_keep: 2}\n");
  }
  /// Return what a run has logged. A step that was done again must have had the same rows.
  Steps logged(const std::string& name) const {
    std::map<std::tuple<int, int, int>, Ids> by_rank;
    for (int rank = 0; rank < kRanks; ++rank) {
      std::istringstream lines(cluster_.read(cluster_.path(fmt::format("{}-{}", name, rank))));
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
  /// Wait until rank 0 has done so many steps.
  bool has_done(const std::string& name, std::size_t lines) const {
    return wait_until([&] {
      const std::string text = cluster_.read(cluster_.path(name + "-0"));
      return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) >= lines;
    });
  }
  /// Return the processes of the program that have no rank.
  std::vector<pid_t> ingest_workers() const {
    std::vector<pid_t> pids;
    const auto ranks = cluster_.worker_pids();
    for (const Seen& seen : cluster_.processes(program("audit_worker")))
      if (!ranks.contains(seen.pid)) pids.push_back(seen.pid);
    return pids;
  }
  /// Wait until no process of the program is left.
  bool all_have_ended() const {
    return wait_until([&] { return cluster_.processes(program("audit_worker")).empty(); });
  }
  /// Return the section of the spec. `more`: of `ingest`.
  static std::string ingest(int workers, const std::string& more = "") {
    return fmt::format(
        "dataset_config: {{train: {{ingest_workers: {}, ingest: {{timeout: 2s, "
        "resources_per_worker: {{CPU: 0}}{}}}}}}}\n",
        workers, more);
  }

 private:
  Cluster& cluster_;
};

}  // namespace train::e2e
