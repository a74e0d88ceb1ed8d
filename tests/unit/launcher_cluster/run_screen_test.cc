#include "launcher/cluster/run/run_screen.h"

#include <gtest/gtest.h>

#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

std::vector<std::pair<std::string, double>> goals(const JobSpec& spec) {
  std::vector<std::pair<std::string, double>> found;
  for (const Goal& goal : goals_of(spec)) found.emplace_back(goal.metric, goal.value);
  return found;
}

TEST(RunScreen, TheRunEndsWhereItsStopConditionsOrItsTotalsSay) {
  using Goals = std::vector<std::pair<std::string, double>>;
  JobSpec spec;
  EXPECT_EQ(goals(spec), Goals{});

  spec.run_config.stop = {{"val_acc", 0.9}};
  spec.train_loop_config = {{"num_epochs", 10}, {"max_steps", 500}, {"lr", 0.1}};
  EXPECT_EQ(goals(spec), (Goals{{"val_acc", 0.9}, {"epoch", 9}, {"step", 500}}));

  spec.run_config.stop.clear();
  spec.train_loop_config = {{"epochs", "ten"}, {"steps", nullptr}};  // users define these
  EXPECT_EQ(goals(spec), Goals{});
}

TEST(RunScreen, TheMetricsThatTheSpecNamesAreShownFirst) {
  const TempFolder temp;
  JobSpec spec;
  spec.run_config.name = "vit";
  spec.run_config.storage_path = temp.path();
  spec.run_config.stop = {{"val_acc", 0.9}};
  spec.run_config.checkpoint_config.score_attribute = "val_loss";
  const auto record = RunRecord::open(spec, {});
  ASSERT_TRUE(record) << record.error().describe();

  const ProgressOptions options = progress_options(spec, **record, OutputMode::Plain, true);

  EXPECT_EQ(options.mode, OutputMode::Plain);
  EXPECT_TRUE(options.color);
  EXPECT_EQ(options.run, "vit");
  EXPECT_EQ(options.path, temp.path() + "/vit");
  EXPECT_EQ(options.metrics, (std::vector<std::string>{"val_acc", "val_loss"}));
  EXPECT_EQ(options.goals.size(), 1u);
}

}  // namespace
}  // namespace train
