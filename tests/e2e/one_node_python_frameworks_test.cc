// Python's frameworks with the package: each of the real ones trains through a SIGKILL and a
// resume, to the same weights as without.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <set>
#include <sstream>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

namespace json = boost::json;

class PythonFrameworks : public testing::Test {
 protected:
  void SetUp() override {
    if (clients_python().empty())
      GTEST_SKIP() << "Lightning, transformers and Accelerate are not installed";
  }

  /// Return the path of a job of two workers, whose runs have the same name.
  std::string job(const std::string& name, const std::string& framework, const std::string& config,
                  const std::string& run_config = "") {
    return cluster.job(
        name,
        fmt::format("command: [{}, {}/tests/e2e/programs/python_{}_worker.py]\n"
                    "env: {{PYTHONPATH: {}/sdk/python, TRAINRUN_LIBRARY: {}, "
                    "PYTHONDONTWRITEBYTECODE: '1', OMP_NUM_THREADS: '1'}}\n"
                    "working_dir: {}\ntrain_loop_config: {{{}}}\n"
                    "scaling_config: {{num_workers: 2, resources_per_worker: {{CPU: 0}}}}",
                    clients_python(), TRAIN_SOURCE_DIR, framework, TRAIN_SOURCE_DIR, LIBTRAINRUN,
                    cluster.dir(), config),
        run_config);
  }
  /// Run a job to its end, and return the results of its ranks.
  json::array run(const std::string& name, const std::string& framework, const std::string& config,
                  const std::string& run_config = "") {
    Process& process = cluster.train_run({job(name, framework, config, run_config)});
    EXPECT_EQ(process.wait(std::chrono::minutes(4)), 0) << process.out() << process.err();
    return cluster.run_json(name).at("results").as_array();
  }
  /// Train without and with a kill, and return the results with: all weights are the same.
  json::array kill_and_resume(const std::string& framework, const std::string& config,
                              const std::string& die) {
    const json::array whole = run("whole", framework, config);
    json::array killed =
        run("killed", framework, config + ", " + die, "  failure_config: {max_failures: 1}");
    EXPECT_EQ(cluster.run_json("whole").at("attempts").as_array().size(), 1u);
    EXPECT_EQ(cluster.run_json("killed").at("attempts").as_array().size(), 2u);
    for (const int rank : {0, 1})
      EXPECT_EQ(killed.at(rank).at("weights"), whole.at(0).at("weights")) << "rank " << rank;
    EXPECT_TRUE(nothing_left(cluster));
    return killed;
  }
  std::string output_of(const std::string& name, int rank) const {
    return cluster.read(
        fmt::format("{}/attempts/000/ranks/{:04}/stdout.log", cluster.run_dir(name), rank));
  }

  Cluster cluster;
};

TEST_F(PythonFrameworks, TorchGoesOnAndItsLoaderDividesTheRows) {
  const json::array results = kill_and_resume("torch", "epochs: 3, processes: 1", "die_at: 1");

  std::multiset<std::int64_t> rows;
  for (const json::value& result : results) {
    EXPECT_EQ(result.at("first"), 2);
    EXPECT_EQ(result.at("rows").as_array().size(), 48u);
    for (const json::value& row : result.at("rows").as_array()) rows.insert(row.as_int64());
  }
  std::multiset<std::int64_t> all;
  for (std::int64_t row = 0; row < 96; ++row) all.insert(row);
  EXPECT_EQ(rows, all);
}

TEST_F(PythonFrameworks, TorchIsReproducibleAlsoInTheLoadersProcesses) {
  const json::array first = run("first", "torch", "epochs: 1, processes: 2, noise: true");
  const json::array second = run("second", "torch", "epochs: 1, processes: 2, noise: true");

  EXPECT_EQ(first, second);
}

TEST_F(PythonFrameworks, TorchShardsAModelToTheSameWeights) {
  const json::array whole = run("whole", "torch", "epochs: 1");
  const json::array sharded = run("sharded", "torch", "epochs: 1, strategy: fsdp");

  EXPECT_NEAR(sharded.at(0).at("weights").as_double(), whole.at(0).at("weights").as_double(), 1e-5);
}

TEST_F(PythonFrameworks, TorchRefusesWhatItWouldNotKeep) {
  run("refused", "torch", "refusals: true");

  EXPECT_EQ(
      output_of("refused", 0),
      "invalid_argument: prepare_data_loader would replace the loader's WeightedRandomSampler, "
      "and with it the choice of rows: divide the rows among the ranks in that sampler, and "
      "pass add_dist_sampler=False\n"
      "invalid_argument: prepare_model: unknown parallel_strategy 'dp' (known: ddp, fsdp, "
      "None)\n");
}

TEST_F(PythonFrameworks, LightningGoesOn) {
  const json::array results = kill_and_resume("lightning", "epochs: 3", "die_at: 1");

  for (const json::value& result : results) {
    EXPECT_EQ(json::serialize(result.at("first")), "[2,8]");
    EXPECT_EQ(result.at("steps"), 12);
  }
  const auto metrics = cluster.metrics("killed");
  ASSERT_EQ(metrics.size(), 6u);
  const json::object& last = metrics.back().at("metrics").as_object();
  for (const char* name : {"epoch", "step", "train_loss", "val_loss", "epochs_done"})
    EXPECT_TRUE(last.contains(name)) << name;
  EXPECT_EQ(last.at("epoch"), 2);
}

TEST_F(PythonFrameworks, LightningStopsInGoodOrderAndKeepsTheLastStep) {
  const std::string path = job("stopped", "lightning", "forever: true, every: 1");
  Process& process = cluster.train_run({path});
  ASSERT_TRUE(
      wait_until([&] { return cluster.metrics("stopped").size() > 4; }, std::chrono::minutes(2)));

  process.signal(SIGINT);

  EXPECT_EQ(process.wait(std::chrono::minutes(2)), 130) << process.err();
  const auto checkpoints = cluster.checkpoints("stopped");
  ASSERT_FALSE(checkpoints.empty());
  const json::object manifest =
      json::parse(cluster.read(cluster.run_dir("stopped") + "/checkpoints/" + checkpoints.back() +
                               "/.manifest.json"))
          .as_object();
  EXPECT_EQ(manifest.at("metrics").at("step"),
            cluster.metrics("stopped").back().at("metrics").at("step"));
}

TEST_F(PythonFrameworks, TransformersGoOn) {
  const json::array results = kill_and_resume("transformers", "steps: 12", "die_at: 6");

  for (const json::value& result : results) {
    EXPECT_EQ(result.at("steps"), 12);
    const std::string files = json::serialize(result.at("files"));
    for (const char* name : {"model.safetensors", "optimizer.pt", "scheduler.pt",
                             "trainer_state.json", "rng_state_0.pth", "rng_state_1.pth"})
      EXPECT_TRUE(contains(files, name)) << files;
  }
}

// Each rank would train on all rows, without the other, and nobody would notice.
TEST_F(PythonFrameworks, TransformersThatWouldTrainAloneAreRefused) {
  Process& process = cluster.train_run({job("alone", "transformers", "steps: 4, alone: true")},
                                       {.env = {{"CUDA_VISIBLE_DEVICES", "-1"}}});

  EXPECT_EQ(process.wait(std::chrono::minutes(4)), 1) << process.out() << process.err();
  EXPECT_TRUE(contains(process.out(), "the Trainer has 1 process, but this run has 2 workers"))
      << process.out();
}

TEST_F(PythonFrameworks, TransformersSaveWhenSomebodyAsks) {
  const std::string path = job("asked", "transformers", "steps: 1000000, save_steps: 1000000");
  Process& process = cluster.train_run({path});
  ASSERT_TRUE(
      wait_until([&] { return !cluster.metrics("asked").empty(); }, std::chrono::minutes(2)));

  EXPECT_EQ(cluster.run({"checkpoint", "now", cluster.run_dir("asked")}), 0);

  EXPECT_EQ(cluster.checkpoints("asked").size(), 1u);
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(std::chrono::minutes(2)), 130) << process.err();
}

TEST_F(PythonFrameworks, AccelerateGoesOn) {
  const json::array results = kill_and_resume("accelerate", "epochs: 3", "die_at: 1");

  for (const json::value& result : results) {
    EXPECT_EQ(result.at("first"), 2);
    const std::string files = json::serialize(result.at("files"));
    for (const char* name : {"model.safetensors", "optimizer.bin", "scheduler.bin",
                             "random_states_0.pkl", "random_states_1.pkl"})
      EXPECT_TRUE(contains(files, name)) << files;
  }
}

// RaySGD's way of training: the driver says what comes next.
TEST_F(PythonFrameworks, ADriverSteersPassesAndADeadWorkerCostsOne) {
  const auto steer = [&](const std::string& name, const std::string& die) {
    std::vector<std::string> words{clients_python(),
                                   TRAIN_SOURCE_DIR "/tests/e2e/programs/operator_driver.py", name};
    if (!die.empty()) words.push_back(die);
    Process& driver = cluster.start(words, {.env = {{"TRAINRUN_PROGRAM", built("train-run")},
                                                    {"TRAINRUN_LIBRARY", LIBTRAINRUN},
                                                    {"PYTHONPATH", TRAIN_SOURCE_DIR "/sdk/python"},
                                                    {"PYTHONDONTWRITEBYTECODE", "1"},
                                                    {"OMP_NUM_THREADS", "1"},
                                                    {"RUNS", cluster.storage()}},
                                            .prefix = {},
                                            .cwd = ""});
    EXPECT_EQ(driver.wait(std::chrono::minutes(4)), 0) << driver.out() << driver.err();
    return driver.out();
  };
  /// Return what follows this word in the driver's output, up to the end of the line.
  const auto said = [](const std::string& out, const std::string& word) {
    const std::size_t at = out.find("\n" + word + " ");
    return at == out.npos ? "" : out.substr(at + 1, out.find('\n', at + 1) - at - 1);
  };

  const std::string whole = steer("whole", "");
  for (
      const char* line :
      {R"(train {"batch_count": 4, "epoch": 1, "num_samples": 64})",
       R"(train {"batch_count": 4, "epoch": 3, "num_samples": 64})", "steps 1\n",
       R"(timed ["mean_apply_s", "mean_fwd_s", "mean_grad_s", "time_this_iter_s", "time_total_s"])",
       "rank 0: ValueError: a mistake of the operator", "rank 1: ValueError: a mistake of the",
       "rates [0.25]\n", "equal true\n", "loaded true\n", "model true\n"})
    EXPECT_TRUE(contains(whole, line)) << line << "\n" << whole;

  const std::string killed = steer("killed", "die");
  EXPECT_EQ(cluster.run_json("whole").at("attempts").as_array().size(), 3u)
      << "after an exception, the workers start again";
  EXPECT_EQ(cluster.run_json("killed").at("attempts").as_array().size(), 4u);
  EXPECT_NE(said(whole, "weights"), "");
  EXPECT_EQ(said(killed, "weights"), said(whole, "weights"));
  EXPECT_EQ(said(killed, "accuracy"), said(whole, "accuracy"));
  EXPECT_TRUE(nothing_left(cluster));
}

// What one run leaves in a process must not be in the next one's way, nor change its weights.
TEST_F(PythonFrameworks, WorkersThatStayFormAnotherProcessGroup) {
  Process& driver =
      cluster.start({clients_python(), TRAIN_SOURCE_DIR "/tests/e2e/programs/warm_torch.py"},
                    {.env = {{"TRAINRUN_PROGRAM", built("train-run")},
                             {"TRAINRUN_LIBRARY", LIBTRAINRUN},
                             {"PYTHONPATH", TRAIN_SOURCE_DIR "/sdk/python"},
                             {"PYTHONDONTWRITEBYTECODE", "1"},
                             {"OMP_NUM_THREADS", "1"},
                             {"RUNS", cluster.storage()}},
                     .prefix = {},
                     .cwd = ""});
  EXPECT_EQ(driver.wait(std::chrono::minutes(4)), 0) << driver.out() << driver.err();

  std::vector<json::array> runs;
  std::istringstream lines(driver.out());
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("ranks ")) runs.push_back(json::parse(line.substr(6)).as_array());
  ASSERT_EQ(runs.size(), 3u) << driver.out();
  for (std::size_t run = 0; run < 3; ++run) {
    EXPECT_EQ(runs[run].at(0).at("weights"), runs[run].at(1).at("weights")) << run;
    for (const std::size_t rank : {0u, 1u}) {
      EXPECT_EQ(runs[run].at(rank).at("pid"), runs[0].at(rank).at("pid"));
      EXPECT_EQ(runs[run].at(rank).at("runs"), run + 1);
    }
  }
  EXPECT_EQ(runs[2].at(0).at("weights"), runs[0].at(0).at("weights"));
  EXPECT_NE(runs[1].at(0).at("weights"), runs[0].at(0).at("weights"));
  EXPECT_TRUE(nothing_left(cluster));
}

}  // namespace
}  // namespace train::e2e
