#include "launcher/cluster/reports/report_sinks.h"

#include "launcher/cluster/run/run_record.h"
#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

TEST(ReportSinks, AreTheOnesThatTheSpecNames) {
  TempFolder temp;
  const RunFolder folder(temp.path());
  const auto sinks = [&](const std::vector<std::string>& callbacks) {
    auto opened = open_report_sinks(callbacks, folder, std::chrono::system_clock::now(), "name: a");
    EXPECT_TRUE(opened) << opened.error().describe();
    return opened ? opened->size() : 0;
  };
  EXPECT_EQ(sinks({}), 0u);
  EXPECT_EQ(sinks({"json"}), 0u);  // already the run's own
  EXPECT_EQ(sinks({"csv"}), 1u);
  EXPECT_FALSE(std::filesystem::exists(folder.tensorboard()));
  EXPECT_EQ(sinks({"csv", "json", "tensorboard"}), 2u);
  EXPECT_TRUE(std::filesystem::exists(folder.progress_csv()));
  EXPECT_TRUE(std::filesystem::exists(folder.tensorboard()));
}

TEST(ReportSinks, AFileThatCannotBeMadeIsAnError) {
  const RunFolder folder("/proc/none");
  for (const char* name : {"csv", "tensorboard"})
    EXPECT_FALSE(open_report_sinks({name}, folder, {}, "")) << name;
}

}  // namespace
}  // namespace train
