#include "lib/observe/tensorboard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <limits>

#include "lib/observe/crc32c.h"
#include "tests/unit/lib_observe/temporary_folder.h"

namespace train {
namespace {

constexpr std::int64_t kWall = 1'795'254'000'000'123;

ReportRecord report(std::uint64_t report_seq, Metrics metrics, std::uint32_t attempt = 0) {
  const auto wall =
      kWall + 1000 * static_cast<std::int64_t>(report_seq + std::uint64_t{100} * attempt);
  return {.rank = 0,
          .attempt = attempt,
          .report_seq = report_seq,
          .wall_us = wall,
          .has_checkpoint = false,
          .metrics = std::move(metrics)};
}

TensorboardFile open(const TemporaryFolder& folder, std::optional<std::uint32_t> adopted = {}) {
  return TensorboardFile::open({.folder = folder.file("tb"),
                                .hostname = "node-a",
                                .wall_us = kWall,
                                .adopted = adopted})
      .value();
}

void write(TensorboardFile& events, std::vector<ReportRecord> reports) {
  ASSERT_TRUE(events.on_reports(reports).has_value());
  ASSERT_TRUE(events.sync().has_value());
}

/// Return what PyPI's tensorboard reads in the folder, as read_events.py prints it.
std::string read_by_tensorboard(const TemporaryFolder& folder) {
  const std::string command = TRAIN_DEPS_DIR "/tools-venv-5/bin/python " TRAIN_SOURCE_DIR
                                             "/tests/unit/lib_observe/read_events.py " +
                              folder.file("tb") + " 2>" + folder.file("stderr");
  FILE* pipe = ::popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> chunk;
  while (const std::size_t count = std::fread(chunk.data(), 1, chunk.size(), pipe))
    output.append(chunk.data(), count);
  EXPECT_EQ(::pclose(pipe), 0) << content_of(folder.file("stderr"));
  return output;
}

TEST(Crc32c, MatchesRfc3720) {
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
}

TEST(TensorboardFile, IsReadByTensorboard) {
  TemporaryFolder folder;
  auto events = open(folder);
  events.write_text("spec", "    name: vit\n", kWall);

  write(events, {report(1, {{"epoch", std::int64_t{0}},
                            {"loss", 0.5},
                            {"note", std::string("text")},
                            {"ok", true}}),
                 report(2, {{"epoch", std::int64_t{1}},
                            {"loss", std::numeric_limits<double>::quiet_NaN()},
                            {"ok", false}})});

  EXPECT_EQ(read_by_tensorboard(folder),
            R"({"plugins":{"note":"text","spec":"text"},"scalars":{)"
            R"("epoch":[[1795254000001123,0,"0.0"],[1795254000002123,1,"1.0"]],)"
            R"("loss":[[1795254000001123,0,"0.5"],[1795254000002123,1,"nan"]],)"
            R"("ok":[[1795254000001123,0,"1.0"],[1795254000002123,1,"0.0"]]},)"
            R"("texts":{"note":["text"],"spec":["    name: vit\n"]}})");
}

ReportRecord report_with(std::uint64_t report_seq, Histogram histogram) {
  ReportRecord made = report(report_seq, {{"step", static_cast<std::int64_t>(report_seq)}});
  made.histograms = {{"fc1", std::move(histogram)}};
  return made;
}

TEST(TensorboardFile, ShowsHistogramsAndCountsApartWhatIsNotFinite) {
  TemporaryFolder folder;
  auto events = open(folder);

  write(events,
        {report_with(1, {.min = -1, .max = 3, .counts = {4, 0}, .nans = 0, .infinities = 0}),
         report_with(2, {.min = 7, .max = 7, .counts = {9}, .nans = 2, .infinities = 0}),
         report_with(3, {.min = 0, .max = 0, .counts = {0}, .nans = 0, .infinities = 0})});

  EXPECT_EQ(read_by_tensorboard(folder),
            R"({"histograms":{"fc1":[[1,[-1.0,1.0,4.0],[1.0,3.0,0.0]],[2,[6.5,7.5,9.0]],)"
            R"([3,[-0.5,0.5,0.0]]]},"plugins":{"fc1":"histograms"},"scalars":{)"
            R"("fc1/nan":[[1795254000002123,2,"2.0"],[1795254000003123,3,"0.0"]],)"
            R"("step":[[1795254000001123,1,"1.0"],[1795254000002123,2,"2.0"],)"
            R"([1795254000003123,3,"3.0"]]},"texts":{}})");
}

// Five bytes before its end, a record of a scalar has 0x15.
TEST(TensorboardFile, TakesNoHistogramForAScalar) {
  TemporaryFolder folder;
  {
    auto events = open(folder);
    write(events, {report(1, {{"x", 1.0}})});
    ReportRecord torn;  // its scalars never reached the disk
    torn.report_seq = 2, torn.wall_us = kWall + 2000;
    constexpr std::uint64_t kWith0x15 = (std::uint64_t{1} << 52) + 0x1500'0000;  // as a double, too
    torn.histograms = {{"fc1", {.min = 0, .max = 1, .counts = {kWith0x15}}}};
    write(events, {torn});
  }

  auto events = open(folder, /*adopted=*/0);
  write(events, {report(2, {{"x", 2.0}})});

  EXPECT_THAT(
      read_by_tensorboard(folder),
      ::testing::HasSubstr(R"("x":[[1795254000001123,0,"1.0"],[1795254000002123,1,"2.0"]])"));
}

TEST(TensorboardFile, ShowsHyperparameters) {
  TemporaryFolder folder;
  auto events = open(folder);
  const Metrics hparams{{"lr", 0.125},
                        {"epochs", std::int64_t{3}},
                        {"amp", false},
                        {"opt.name", std::string("adam\xe9")}};
  events.write_hparams(hparams, kWall);
  write(events, {report(1, {{"loss", 0.5}})});
  {
    auto again = open(folder);  // of a resumed run: no second session
    again.write_hparams({{"lr", 0.5}}, kWall);
    write(again, {});
  }

  EXPECT_EQ(read_by_tensorboard(folder),
            R"({"hparams":{"amp":false,"epochs":3.0,"lr":0.125,"opt.name":"adam\ufffd"},)"
            R"("plugins":{},)"
            R"("scalars":{"loss":[[1795254000001123,0,"0.5"]]},"started":1795254000.000123,)"
            R"("texts":{}})");
}

TEST(TensorboardFile, IsReadWhateverBytesANameHas) {
  TemporaryFolder folder;
  auto events = open(folder);
  events.write_text("spec", "name: \xe9", kWall);

  write(events, {report(1, {{"t\xe9mp", 1.0}})});

  EXPECT_EQ(read_by_tensorboard(folder),
            R"({"plugins":{"spec":"text"},"scalars":{"t\ufffdmp":[[1795254000001123,0,"1.0"]]},)"
            R"("texts":{"spec":["name: \ufffd"]}})");
}

TEST(TensorboardFile, StepComesFromStepElseEpochElseACount) {
  TemporaryFolder folder;
  auto events = open(folder);

  write(events,
        {report(1, {{"x", 1.0}}), report(2, {{"x", 2.0}}), report(3, {{"x", 3.0}, {"epoch", 7.0}}),
         report(4, {{"x", 4.0}, {"epoch", 8.0}, {"step", std::int64_t{800}}}),
         report(5, {{"x", 5.0}})});

  EXPECT_EQ(
      read_by_tensorboard(folder),
      R"({"plugins":{},"scalars":{"epoch":[[1795254000003123,7,"7.0"],[1795254000004123,800,"8.0"]],)"
      R"("step":[[1795254000004123,800,"800.0"]],)"
      R"("x":[[1795254000001123,0,"1.0"],[1795254000002123,1,"2.0"],[1795254000003123,7,"3.0"],)"
      R"([1795254000004123,800,"4.0"],[1795254000005123,801,"5.0"]]},"texts":{}})");
}

TEST(TensorboardFile, WhatARestartRedoesSupersedes) {
  TemporaryFolder folder;
  auto events = open(folder);
  const auto at = [](std::int64_t step, double x) { return Metrics{{"step", step}, {"x", x}}; };

  write(events, {report(1, at(1, 0.1)), report(2, at(2, 0.2)), report(3, at(3, 0.3)),
                 report(1, at(2, 1.2), /*attempt=*/1), report(2, at(3, 1.3), /*attempt=*/1)});

  EXPECT_EQ(
      read_by_tensorboard(folder),
      R"({"plugins":{},"scalars":{)"
      R"("step":[[1795254000001123,1,"1.0"],[1795254000101123,2,"2.0"],[1795254000102123,3,"3.0"]],)"
      R"("x":[[1795254000001123,1,"0.10000000149011612"],[1795254000101123,2,"1.2000000476837158"],)"
      R"([1795254000102123,3,"1.2999999523162842"]]},"texts":{}})");
}

// Of several reports with the same epoch, all points stay.
TEST(TensorboardFile, AnAttemptThatIsFoundRunningSupersedesNothing) {
  TemporaryFolder folder;
  const auto in_epoch_2 = [](double x) { return Metrics{{"epoch", std::int64_t{2}}, {"x", x}}; };
  auto before = open(folder);
  write(before, {report(1, in_epoch_2(0.25))});

  auto events = open(folder, /*adopted=*/0);
  write(events, {report(2, in_epoch_2(0.5))});

  EXPECT_EQ(read_by_tensorboard(folder),
            R"({"plugins":{},"scalars":{)"
            R"("epoch":[[1795254000001123,2,"2.0"],[1795254000002123,2,"2.0"]],)"
            R"("x":[[1795254000001123,2,"0.25"],[1795254000002123,2,"0.5"]]},"texts":{}})");
}

TEST(TensorboardFile, ANewAttemptWhoseClockIsBehindIsWritten) {
  TemporaryFolder folder;
  auto before = open(folder);
  write(before, {report(1, {{"x", 1.0}}, /*attempt=*/5)});

  auto events = open(folder, /*adopted=*/5);
  auto late = report(1, {{"x", 2.0}}, /*attempt=*/6);
  late.wall_us = kWall - 1'000'000;
  write(events, {late});

  EXPECT_EQ(read_by_tensorboard(folder),
            R"({"plugins":{},"scalars":{"x":[[1795254000501123,0,"1.0"],)"
            R"([1795253999000123,1,"2.0"]]},"texts":{}})");
}

TEST(TensorboardFile, BeginsAgainIfSomeoneRemovesItsFolder) {
  TemporaryFolder folder;
  auto events = open(folder);
  write(events, {report(1, {{"x", 1.0}})});
  std::filesystem::remove_all(folder.file("tb"));

  write(events, {report(2, {{"x", 2.0}})});

  EXPECT_EQ(read_by_tensorboard(folder),
            R"({"plugins":{},"scalars":{"x":[[1795254000002123,1,"2.0"]]},"texts":{}})");
}

TEST(TensorboardFile, GoesOnAfterAReopenWithoutDoublesAndWithoutATornEnd) {
  TemporaryFolder folder;
  std::string path;
  {
    auto events = open(folder);
    events.write_text("spec", "first", kWall);
    write(events, {report(1, {{"x", 1.0}}), report(2, {{"x", 2.0}})});
    path = events.path();
  }
  const std::string whole = content_of(path);
  append(path, whole.substr(0, 20));

  auto events = open(folder, /*adopted=*/0);
  EXPECT_EQ(events.path(), path);
  events.write_text("spec", "again", kWall);
  write(events, {report(1, {{"x", 1.0}}), report(2, {{"x", 2.0}}), report(3, {{"x", 3.0}}),
                 report(3, {{"x", 3.0}})});

  EXPECT_EQ(
      read_by_tensorboard(folder),
      R"({"plugins":{"spec":"text"},"scalars":{"x":[[1795254000001123,0,"1.0"],[1795254000002123,1,"2.0"],)"
      R"([1795254000003123,2,"3.0"]]},"texts":{"spec":["first"]}})");
}

}  // namespace
}  // namespace train
