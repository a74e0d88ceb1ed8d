#include "launcher/cluster/run/run_screen.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace train
