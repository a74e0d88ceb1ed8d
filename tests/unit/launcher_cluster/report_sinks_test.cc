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

TEST(ReportSinks, TensorboardBeginsNoSessionForAnAttemptThatIsFoundRunning) {
  TempFolder temp;
  const RunFolder folder(temp.path());
  const auto session_starts_after_report = [&](std::uint64_t report_seq,
                                               std::optional<Attempt> adopted) {
    auto sinks = open_report_sinks({"tensorboard"}, folder, {}, "", adopted).value();
    ReportRecord report;
    report.report_seq = report_seq;
    report.wall_us = static_cast<std::int64_t>(report_seq);
    report.metrics = {{"epoch", std::int64_t{2}}};
    EXPECT_TRUE(sinks[0]->on_reports({&report, 1}) && sinks[0]->flush());
    const auto file = std::filesystem::directory_iterator(folder.tensorboard())->path();
    // Event{7: SessionLog{1: START}}
    return text_of(file).find("\x3a\x02\x08\x01") != std::string::npos;
  };

  EXPECT_FALSE(session_starts_after_report(1, {}));
  EXPECT_FALSE(session_starts_after_report(2, Attempt{0}));
  EXPECT_TRUE(session_starts_after_report(3, {}));
}

TEST(ReportSinks, HyperparametersAreTheConfigFlattened) {
  JobSpec spec;
  spec.train_loop_config = {
      {"lr", 0.1}, {"epochs", 3}, {"amp", true}, {"opt", {{"name", "adam"}, {"betas", {1, 2}}}}};
  EXPECT_EQ(hparams_of(spec), (Metrics{{"lr", 0.1},
                                       {"epochs", std::int64_t{3}},
                                       {"amp", true},
                                       {"opt.name", std::string("adam")},
                                       {"opt.betas", std::string("[1,2]")}}));
}

TEST(ReportSinks, AFileThatCannotBeMadeIsAnError) {
  const RunFolder folder("/proc/none");
  for (const char* name : {"csv", "tensorboard"})
    EXPECT_FALSE(open_report_sinks({name}, folder, {}, "")) << name;
}

}  // namespace
}  // namespace train
