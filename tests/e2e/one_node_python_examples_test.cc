// The examples of Python's frameworks, as their READMEs run them: two workers train to the same
// weights, also if one of them is killed. Those of large clients are an entry of their own
// (`make clients`).
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <boost/json.hpp>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

namespace json = boost::json;

const std::string kExamples = TRAIN_SOURCE_DIR "/examples/";
const std::string kDigits =
    "train_loop_config.digits=" TRAIN_DEPS_DIR "/mnist-0.25.0/mnist_5k.csv.gz";

class PythonExamples : public testing::Test {
 protected:
  /// Write the digits, on which most of the examples train.
  void prepare_digits() {
    Process& process =
        cluster.start({"python3", kExamples + "mnist_ddp/prepare_data.py", "--out", cluster.dir()},
                      {.env = {{"TRAINRUN_DEPS_DIR", TRAIN_DEPS_DIR}}, .prefix = {}, .cwd = ""});
    ASSERT_EQ(process.wait(), 0) << process.err();
    for (const char* part : {"train", "valid"})
      settings_.push_back(
          fmt::format("datasets.{}.path={}", part, cluster.path(std::string(part) + ".parquet")));
  }
  Process& start(const std::string& name, const std::string& python, const std::string& example) {
    std::vector<std::string> arguments{kExamples + example + "/job.yaml"};
    std::vector<std::string> settings = settings_;
    settings.insert(settings.end(),
                    {"run_config.name=" + name, "run_config.storage_path=" + cluster.storage(),
                     fmt::format("command=[\"{}\",\"{}{}/train.py\"]", python, kExamples, example),
                     "working_dir=" + cluster.dir(), "scaling_config.resources_per_worker.CPU=0",
                     "env.PYTHONPATH=" TRAIN_SOURCE_DIR "/sdk/python",
                     "env.TRAINRUN_LIBRARY=" LIBTRAINRUN, "env.PYTHONDONTWRITEBYTECODE='1'"});
    for (const std::string& setting : settings) {
      arguments.emplace_back("--set");
      arguments.push_back(setting);
    }
    return cluster.train_run(arguments);
  }
  /// Run an example undisturbed, and once more with a SIGKILL for rank 1 as soon as there is a
  /// checkpoint: all ranks of both runs end with the same weights.
  void trains_through_a_kill(const std::string& python, const std::string& example) {
    Process& whole = start("whole", python, example);
    ASSERT_EQ(whole.wait(std::chrono::minutes(4)), 0) << whole.out() << whole.err();

    Process& killed = start("killed", python, example);
    ASSERT_TRUE(
        wait_until([&] { return !cluster.checkpoints("killed").empty() || !killed.running(); },
                   std::chrono::minutes(4)));
    const auto victim = cluster.worker(1);
    ASSERT_TRUE(victim.has_value()) << killed.out() << killed.err();
    send_signal(*victim, SIGKILL);
    ASSERT_EQ(killed.wait(std::chrono::minutes(4)), 0) << killed.out() << killed.err();

    EXPECT_EQ(cluster.run_json("whole").at("attempts").as_array().size(), 1u);
    EXPECT_EQ(cluster.run_json("killed").at("attempts").as_array().size(), 2u);
    const json::array before = cluster.run_json("whole").at("results").as_array();
    const json::array after = cluster.run_json("killed").at("results").as_array();
    const json::value weights = before.at(0).at("weights");
    EXPECT_EQ(weights.as_string().size(), 64u);
    for (const int rank : {0, 1}) {
      EXPECT_EQ(before.at(rank).at("weights"), weights) << "rank " << rank;
      EXPECT_EQ(after.at(rank).at("weights"), weights) << "rank " << rank;
      EXPECT_EQ(before.at(rank).at("first"), 0) << "rank " << rank;
      EXPECT_GT(after.at(rank).at("first").as_int64(), 0) << "rank " << rank;
    }
    EXPECT_TRUE(nothing_left(cluster));
  }

  Cluster cluster;
  std::vector<std::string> settings_;  // for --set
};

TEST_F(PythonExamples, MpiTrainsThroughAKill) {
  if (mpi_python().empty()) GTEST_SKIP() << "mpi4py and MPICH are not installed";
  prepare_digits();

  trains_through_a_kill(mpi_python(), "mpi");
}

TEST_F(PythonExamples, LightningTrainsThroughAKill) {
  if (clients_python().empty()) GTEST_SKIP() << "Lightning is not installed";
  settings_ = {kDigits};

  trains_through_a_kill(clients_python(), "lightning");
}

TEST_F(PythonExamples, TransformersTrainThroughAKill) {
  if (clients_python().empty()) GTEST_SKIP() << "transformers is not installed";
  settings_ = {"train_loop_config.text=" TRAIN_SOURCE_DIR "/docs", "train_loop_config.context=32",
               "train_loop_config.batch_size=4", "train_loop_config.steps=60",
               "train_loop_config.report_every=10"};

  trains_through_a_kill(clients_python(), "transformers");
}

using LargeExamples = PythonExamples;

TEST_F(LargeExamples, JaxTrainsThroughAKill) {
  if (frameworks_python().empty()) GTEST_SKIP() << "JAX is not installed";
  prepare_digits();
  settings_.emplace_back("env.JAX_PLATFORMS=cpu");

  trains_through_a_kill(frameworks_python(), "jax");
}

TEST_F(LargeExamples, TensorflowTrainsThroughAKill) {
  if (frameworks_python().empty()) GTEST_SKIP() << "TensorFlow is not installed";
  settings_ = {kDigits};

  trains_through_a_kill(frameworks_python(), "tensorflow");
}

TEST_F(LargeExamples, HorovodTrainsThroughAKill) {
  if (horovod_python().empty()) GTEST_SKIP() << "Horovod is not installed";
  settings_ = {kDigits, "train_loop_config.epochs=15"};

  trains_through_a_kill(horovod_python(), "horovod");
}

}  // namespace
}  // namespace train::e2e
