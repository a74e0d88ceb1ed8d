// Runs the examples as their READMEs say, with little data.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>
#include <stdexcept>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

const std::string kExamples = TRAIN_SOURCE_DIR "/examples/";

class Examples : public ::testing::Test {
 protected:
  /// Run a script of an example with Python.
  void prepare(const std::string& script, const std::vector<std::string>& arguments) {
    std::vector<std::string> argv = {"python3", kExamples + script};
    argv.insert(argv.end(), arguments.begin(), arguments.end());
    Process& process = cluster.start(
        argv, {.env = {{"TRAINRUN_DEPS_DIR", TRAIN_DEPS_DIR}}, .prefix = {}, .cwd = ""});
    if (process.wait() != 0) throw std::runtime_error(script + " failed: " + process.err());
  }
  /// Run a spec of an example to its end as the run `name`.
  void run(const std::string& name, const std::string& spec,
           const std::vector<std::string>& settings) {
    const std::string example = spec.substr(0, spec.find('/'));
    std::vector<std::string> arguments = {kExamples + spec,
                                          "--set",
                                          "run_config.name=" + name,
                                          "--set",
                                          "run_config.storage_path=" + cluster.storage(),
                                          "--set",
                                          "command=[\"" + built("examples/" + example) + "\"]",
                                          "--set",
                                          "scaling_config.resources_per_worker.CPU=0"};
    for (const std::string& setting : settings) {
      arguments.emplace_back("--set");
      arguments.push_back(setting);
    }
    Process& process = cluster.train_run(arguments);
    if (process.wait(Seconds(300)) != 0)
      throw std::runtime_error(name + " failed: " + process.out() + process.err());
  }
  std::string checkpoint(const std::string& name, int number) const {
    return fmt::format("{}/checkpoints/checkpoint_{:06}", cluster.run_dir(name), number);
  }
  double metric(const boost::json::object& metrics, const std::string& key) const {
    const auto* value = metrics.if_contains(key);
    return value == nullptr ? NAN : value->to_number<double>();
  }
  /// The metrics of rank 0's reports, in order.
  std::vector<boost::json::object> reports(const std::string& name) const {
    std::vector<boost::json::object> all;
    for (const auto& line : cluster.metrics(name))
      if (line.at("rank").to_number<int>() == 0) all.push_back(line.at("metrics").as_object());
    return all;
  }

  Cluster cluster;
};

class CifarVit : public Examples {
 protected:
  void make_images(int train, int test) {
    prepare("cifar10_vit/make_images.py", {"--out", cluster.path("images"), "--train",
                                           std::to_string(train), "--test", std::to_string(test)});
  }
  void run_small(const std::string& name, std::vector<std::string> settings) {
    settings.push_back("datasets.train.path=" + cluster.path("images/data_batch_*.bin"));
    settings.push_back("datasets.valid.path=" + cluster.path("images/test_batch.bin"));
    run(name, "cifar10_vit/small.yaml", settings);
  }
};

TEST_F(CifarVit, LearnsToTellThePictures) {
  make_images(1200, 301);
  run_small("vit", {});

  const auto epochs = reports("vit");
  ASSERT_EQ(epochs.size(), 6u);
  EXPECT_LT(metric(epochs.front(), "accuracy"), 0.9);  // it had something to learn
  const double accuracy = metric(epochs.back(), "accuracy");
  EXPECT_GE(accuracy, 0.95);
  // Both ranks' rows count: one has 151 of them, the other 150.
  EXPECT_NEAR(accuracy * 301, std::round(accuracy * 301), 1e-6) << accuracy;
}

TEST_F(CifarVit, TakesTheSameStepsWithAnyNumberOfWorkers) {
  make_images(400, 50);
  std::vector<boost::json::object> ends;
  for (const char* workers : {"1", "3"}) {
    run_small(std::string("of_") + workers,
              {std::string("scaling_config.num_workers=") + workers, "train_loop_config.epochs=1",
               "train_loop_config.batch_size=64"});
    ASSERT_EQ(reports(std::string("of_") + workers).size(), 1u);
    ends.push_back(reports(std::string("of_") + workers).front());
  }
  for (const char* name : {"train_loss", "loss"})
    EXPECT_NEAR(metric(ends[0], name), metric(ends[1], name), 1e-4) << name;
}

TEST_F(CifarVit, TakesTheSameStepsWhenOthersReadThePictures) {
  make_images(400, 50);
  const std::vector<std::string> shorter{"train_loop_config.epochs=1",
                                         "train_loop_config.batch_size=64"};
  run_small("own", shorter);
  std::vector<std::string> apart = shorter;
  apart.insert(apart.end(), {"dataset_config.train.ingest_workers=2",
                             "dataset_config.train.ingest.resources_per_worker.CPU=0"});
  run_small("apart", apart);

  EXPECT_TRUE(contains(cluster.read(cluster.run_dir("apart") + "/events.jsonl"), "\"ingest"));
  ASSERT_EQ(reports("apart").size(), 1u);
  for (const char* name : {"train_loss", "loss"})
    EXPECT_EQ(metric(reports("own").front(), name), metric(reports("apart").front(), name)) << name;
}

TEST(CifarVitSpecs, OfOneAndEightWorkersDifferInOneLine) {
  std::istringstream one(read_file(kExamples + "cifar10_vit/job.yaml"));
  std::istringstream eight(read_file(kExamples + "cifar10_vit/job_8.yaml"));
  std::vector<std::string> differ;
  for (std::string a, b; std::getline(one, a) && std::getline(eight, b);)
    if (a != b) differ.insert(differ.end(), {a, b});
  EXPECT_EQ(differ, (std::vector<std::string>{"  num_workers: 1", "  num_workers: 8"}));
  EXPECT_TRUE(eight.peek() == EOF);

  Cluster cluster;
  for (const char* spec : {"job.yaml", "job_8.yaml", "job_ingest.yaml"})
    EXPECT_EQ(cluster.run({"validate", kExamples + "cifar10_vit/" + spec}), 0) << spec;
}

class Text : public Examples {
 protected:
  void run_text(const std::string& name, std::vector<std::string> settings) {
    for (const char* setting : {"context=32", "layers=1", "heads=2", "width=32", "batch_size=16",
                                "lr=0.003", "warmup_steps=5", "report_every=20", "continue=40"})
      settings.push_back(std::string("train_loop_config.") + setting);
    settings.push_back("train_loop_config.text=" TRAIN_SOURCE_DIR "/docs");
    run(name, "text/job.yaml", settings);
  }
};

TEST_F(Text, LearnsAndGoesOnFromItsCheckpointAsIfNothingHadBeen) {
  run_text("plain", {"train_loop_config.steps=80"});
  run_text("begun", {"train_loop_config.steps=40"});
  run_text("resumed", {"train_loop_config.steps=80", "scaling_config.num_workers=1",
                       "resume_from_checkpoint=" + checkpoint("begun", 2)});

  const auto plain = reports("plain"), resumed = reports("resumed");
  ASSERT_EQ(plain.size(), 4u);
  ASSERT_EQ(resumed.size(), 2u);
  EXPECT_GT(metric(plain.front(), "loss"), 4);  // ln 256 is 5.5
  EXPECT_LT(metric(plain.back(), "loss"), 3.3);
  EXPECT_LT(metric(plain.back(), "val_loss"), 3.3);
  for (std::size_t i = 0; i < resumed.size(); ++i) {
    EXPECT_EQ(metric(resumed[i], "step"), metric(plain[2 + i], "step"));
    // Each step had the same bytes, divided among two workers or one.
    for (const char* name : {"loss", "val_loss"})
      EXPECT_NEAR(metric(resumed[i], name), metric(plain[2 + i], name), 1e-3) << name;
  }
}

TEST_F(Text, AShardedRunTrainsAsAPreparedOneAndEachGoesOnFromTheOther) {
  const std::string sharded = "train_loop_config.sharded=true";
  run_text("plain", {"train_loop_config.steps=80"});
  run_text("whole", {"train_loop_config.steps=40"});
  run_text("sharded", {"train_loop_config.steps=60", sharded,
                       "resume_from_checkpoint=" + checkpoint("whole", 2)});
  run_text("wider", {"train_loop_config.steps=80", sharded, "scaling_config.num_workers=4",
                     "resume_from_checkpoint=" + checkpoint("sharded", 1)});
  run_text("whole_again", {"train_loop_config.steps=80", "scaling_config.num_workers=1",
                           "resume_from_checkpoint=" + checkpoint("sharded", 1)});

  const auto plain = reports("plain");
  ASSERT_EQ(plain.size(), 4u);
  const auto as_plain = [&](const std::string& run, std::size_t at) {
    const auto found = reports(run);
    ASSERT_EQ(found.size(), 1u) << run;
    for (const char* name : {"step", "loss", "val_loss"})
      EXPECT_NEAR(metric(found[0], name), metric(plain[at], name), 1e-3) << run << " " << name;
  };
  as_plain("sharded", 2);
  as_plain("wider", 3);
  as_plain("whole_again", 3);
}

TEST_F(Text, TakesTheSameStepsInPartsAndNearlyTheSameInBfloat16) {
  const std::string steps = "train_loop_config.steps=40";
  run_text("plain", {steps});
  run_text("parts", {steps, "train_loop_config.accumulate=4"});
  run_text("bfloat16", {steps, "train_loop_config.precision=bfloat16"});

  const auto plain = reports("plain"), parts = reports("parts"), bfloat16 = reports("bfloat16");
  ASSERT_EQ(plain.size(), 2u);
  ASSERT_EQ(parts.size(), 2u);
  ASSERT_EQ(bfloat16.size(), 2u);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    for (const char* name : {"loss", "val_loss"}) {
      EXPECT_NEAR(metric(parts[i], name), metric(plain[i], name), 1e-3) << name;
      EXPECT_NEAR(metric(bfloat16[i], name), metric(plain[i], name), 0.05) << name;
    }
    EXPECT_EQ(metric(parts[i], "lr"), metric(plain[i], "lr"));
    EXPECT_EQ(metric(bfloat16[i], "skipped_steps"), 0);
  }
  EXPECT_NE(metric(bfloat16.back(), "loss"), metric(plain.back(), "loss"));
}

TEST_F(Examples, DcganKeepsBothModelsAndBothOptimizers) {
  const std::string digits = std::string(TRAIN_DEPS_DIR) + "/mnist-0.25.0/mnist_5k.csv.gz";
  prepare("dcgan/prepare_data.py", {"--out", cluster.dir(), "--csv", digits, "--digits", "320"});
  const auto run_gan = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> settings = {
        "train_loop_config.digits=" + cluster.path("train-images-idx3-ubyte"),
        "train_loop_config.pictures=" + cluster.path("pictures"), "train_loop_config.latent=8",
        "train_loop_config.features=4", "train_loop_config.batch_size=32"};
    settings.insert(settings.end(), more.begin(), more.end());
    run(name, "dcgan/job.yaml", settings);
  };
  run_gan("plain", {"train_loop_config.epochs=3"});
  run_gan("begun", {"train_loop_config.epochs=1"});
  run_gan("resumed",
          {"train_loop_config.epochs=3", "resume_from_checkpoint=" + checkpoint("begun", 1)});

  for (const char* file : {"model", "model_1", "optimizer", "optimizer_1"})
    EXPECT_TRUE(exists(checkpoint("begun", 1) + "/" + file + ".safetensors")) << file;
  EXPECT_EQ(read_file(cluster.path("pictures/2.pgm")).size(), 14u + 10 * 28 * 28);
  const auto plain = reports("plain"), resumed = reports("resumed");
  ASSERT_EQ(plain.size(), 3u);
  ASSERT_EQ(resumed.size(), 2u);
  for (std::size_t i = 0; i < resumed.size(); ++i) {
    for (const char* name : {"generator_loss", "discriminator_loss"})
      EXPECT_NEAR(metric(resumed[i], name), metric(plain[1 + i], name), 1e-4) << name;
  }
  EXPECT_LT(metric(plain.back(), "discriminator_loss"),
            metric(plain.front(), "discriminator_loss"));
}

TEST_F(Examples, ADriverTrainsUntilTheAccuracySuffices) {
  prepare("mnist_ddp/prepare_data.py", {"--out", cluster.path("digits")});
  Process& driver =
      cluster.start({built("examples/driver"), cluster.path("digits"), "0.9"},
                    {.env = {{"TRAINRUN_PROGRAM", built("train-run")}, {"RUNS", cluster.storage()}},
                     .prefix = {},
                     .cwd = ""});
  EXPECT_EQ(driver.wait(Seconds(300)), 0) << driver.out() << driver.err();

  EXPECT_TRUE(contains(driver.out(), "\npass 1: loss ")) << driver.out();
  const std::size_t end = driver.out().find("\naccuracy 0.9");
  ASSERT_NE(end, std::string::npos) << driver.out();
  EXPECT_FALSE(contains(driver.out(), "\npass 20: ")) << "it stops once it is enough";
  const auto exit = cluster.run_json("steered");
  EXPECT_EQ(text_of(exit, "outcome"), "succeeded");
  EXPECT_TRUE(nothing_left(cluster));
}

TEST_F(Examples, TabularPredictsWithThePreprocessorsOfItsCheckpoint) {
  prepare("tabular/make_people.py",
          {"--out", cluster.path("people"), "--train", "2000", "--valid", "501"});
  run("table", "tabular/job.yaml",
      {"datasets.train.path=" + cluster.path("people/train.csv"),
       "datasets.valid.path=" + cluster.path("people/valid.csv"), "train_loop_config.epochs=4"});

  const auto epochs = reports("table");
  ASSERT_EQ(epochs.size(), 4u);
  EXPECT_GE(metric(epochs.back(), "accuracy"), 0.85);

  Process& process = cluster.start({built("examples/tabular"), "predict", checkpoint("table", 4),
                                    cluster.path("people/new.csv")});
  ASSERT_EQ(process.wait(), 0) << process.err();
  std::istringstream predicted(process.out()), table(read_file(cluster.path("people/valid.csv")));
  std::string line, row;
  std::getline(table, row);  // the names of the columns
  int rows = 0, right = 0;
  for (; std::getline(predicted, line); ++rows) {
    std::getline(table, row);
    right += (std::stod(line) > 0.5) == row.ends_with(",1") ? 1 : 0;
  }
  EXPECT_EQ(rows, 10);
  EXPECT_GE(right, 8);
}

}  // namespace
}  // namespace train::e2e
