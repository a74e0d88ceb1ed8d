// What the executor sends to supervisors and workers, and what the end of a validation means.
// tests/e2e has the flows.
#include "launcher/cluster/checkpoints/validation_executor.h"

#include <gtest/gtest.h>

#include "lib/wire/attempt_messages.h"
#include "lib/wire/codec.h"
#include "lib/wire/reports.h"

namespace train {
namespace {

const std::string kNow = "2026-11-21T09:38:00.123456Z";

KnownCheckpoint known(std::uint64_t number, std::size_t text_bytes = 1) {
  return {{number, "/run/checkpoints/" + std::to_string(number), 0},
          {{"note", std::string(text_bytes, 'x')}},
          std::nullopt,
          ""};
}

ValidationEnded ended_well(const std::string& result) {
  ValidationEnded ended;
  ended.checkpoint = 3;
  ended.status = "validated";
  ended.result_json = result;
  ended.took_ms = 20;
  return ended;
}

TEST(ValidationExecutor, TheResultOfAGoodEndIsRead) {
  const ValidationRecord record = validation_record(ended_well(R"({"acc": 0.5})"), kNow);

  EXPECT_EQ(record, (ValidationRecord{.checkpoint = CheckpointNumber{3},
                                      .status = ValidationStatus::Validated,
                                      .metrics = {{"acc", 0.5}},
                                      .error = "",
                                      .took_ms = 20,
                                      .ended = kNow}));
}

TEST(ValidationExecutor, AResultThatIsNoneIsAFailure) {
  const ValidationRecord record = validation_record(ended_well("[0.5]"), kNow);

  EXPECT_EQ(record.status, ValidationStatus::Failed);
  EXPECT_EQ(record.error, "its result is not a JSON object of metrics: no JSON object");
}

TEST(ValidationExecutor, WhoAsksIsToldTheStateOfEach) {
  std::vector<KnownCheckpoint> all{known(1), known(2), known(3), known(4)};
  all[1].validation = ValidationStatus::Validated;
  all[2].validation = ValidationStatus::TimedOut;
  all[2].error = "it took longer than 2 s";

  const auto message = reported_message({.rank = 1, .request = 5}, all, {4});

  EXPECT_EQ(message.rank, 1);
  EXPECT_EQ(message.request, 5u);
  ASSERT_EQ(message.checkpoints.size(), 4u);
  EXPECT_EQ(message.checkpoints[0].status, "committed");
  EXPECT_EQ(message.checkpoints[1].status, "validated");
  EXPECT_EQ(message.checkpoints[2].status, "timeout");
  EXPECT_EQ(message.checkpoints[2].error, "it took longer than 2 s");
  EXPECT_EQ(message.checkpoints[3].status, "pending_validation");
  const auto metrics = read_reports(
      {.rank = 0, .first_report_seq = 1, .count = 1, .data = message.checkpoints[0].metrics}, 0);
  ASSERT_TRUE(metrics) << metrics.error().describe();
  EXPECT_EQ(metrics->front().metrics, all[0].metrics);
}

TEST(ValidationExecutor, OfMoreThanFitAFrameTheNewestAreTold) {
  std::vector<KnownCheckpoint> all;
  for (std::uint64_t number = 1; number <= 100; ++number) all.push_back(known(number, 60'000));

  const auto message = reported_message({}, all, {});

  EXPECT_EQ(message.checkpoints.back().number, 100u);
  EXPECT_EQ(message.checkpoints.size(), 34u);  // they take 2 MiB
  EXPECT_LT(encode(message, Attempt{0}).payload.size(), kFramePayloadBytesMax);
}

TEST(ValidationExecutor, LongErrorsCountAsWell) {
  std::vector<KnownCheckpoint> all;
  for (std::uint64_t number = 1; number <= 100; ++number) {
    all.push_back(known(number));
    all.back().error = std::string(60'000, 'e');
  }

  const auto message = reported_message({}, all, {});

  EXPECT_EQ(message.checkpoints.back().number, 100u);
  EXPECT_EQ(message.checkpoints.size(), 34u);
  EXPECT_LT(encode(message, Attempt{0}).payload.size(), kFramePayloadBytesMax);
}

}  // namespace
}  // namespace train
