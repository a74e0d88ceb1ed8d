// The files that hold a run's reports: metrics.jsonl, progress.csv and TensorBoard's event files.
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "tests/e2e/cluster.h"

namespace train::e2e {
namespace {

std::string metrics_job(const Cluster& cluster) {
  return cluster.job("job", "command: [" + program("sdk_worker") +
                                "]\ntrain_loop_config: {mode: metrics}\nscaling_config: "
                                "{num_workers: 2, resources_per_worker: {CPU: 0}}");
}

TEST(Reports, MetricsJsonlHoldsNanAsNull) {
  Cluster cluster;

  ASSERT_EQ(cluster.run({metrics_job(cluster)}), 0);

  std::vector<std::string> of_rank_one;
  for (const auto& line : cluster.metrics("job")) {
    if (text_of(line, "rank") == "1")
      of_rank_one.push_back(text_of(line, "report_seq") + " " + text_of(line, "metrics"));
  }
  EXPECT_EQ(of_rank_one,
            (std::vector<std::string>{
                R"(1 {"epoch":0,"loss":null,"note":"first","ok":true,"up":null})",
                R"(2 {"epoch":1,"loss":2.5E-1,"note":"second","ok":false,"up":2E0})"}));
}

TEST(Reports, ProgressCsvHasALineOfRankZeroEach) {
  Cluster cluster;

  ASSERT_EQ(cluster.run({metrics_job(cluster)}), 0);

  const std::string script = cluster.write("read.py", R"(import csv, sys
for row in csv.DictReader(open(sys.argv[1])):
    print(row["epoch"], row["loss"], row["note"], row["up"])
)");
  Process& reader = cluster.start({"python3", script, cluster.run_dir("job") + "/progress.csv"});
  ASSERT_EQ(reader.wait(), 0);
  EXPECT_EQ(reader.out(), "0 nan first inf\n1 0.25 second 2\n")
      << cluster.read(cluster.run_dir("job") + "/progress.csv");
}

TEST(Reports, TensorBoardReadsItsEventFiles) {
  const std::string python = tools_python();
  if (python.empty())
    GTEST_SKIP() << "no Python with tensorboard: run packaging/deps/install.sh test";
  Cluster cluster;
  ASSERT_EQ(cluster.run({metrics_job(cluster)}), 0);

  const std::string script = cluster.write("read.py", R"(import sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.util.tensor_util import make_ndarray
events = EventAccumulator(sys.argv[1])
events.Reload()
print(sorted(events.Tags()["scalars"]))
print([(event.step, event.value) for event in events.Scalars("loss")][-1])
print([(event.step, make_ndarray(event.tensor_proto).tolist()) for event in events.Tensors("weights")])
print([event.value for event in events.Scalars("weights/nan")])
)");
  Process& reader = cluster.start({python, script, cluster.run_dir("job") + "/tb"});

  ASSERT_EQ(reader.wait(), 0) << reader.err();
  EXPECT_TRUE(contains(reader.out(), "'loss'")) << reader.out();
  EXPECT_TRUE(contains(reader.out(), "0.25)")) << reader.out();
  // The histogram belongs to the first report, of epoch 0.
  EXPECT_TRUE(contains(reader.out(), "[(0, [[-1.0, 0.0, 1.0], [0.0, 1.0, 3.0]])]\n[1.0]\n"))
      << reader.out();
}

}  // namespace
}  // namespace train::e2e
