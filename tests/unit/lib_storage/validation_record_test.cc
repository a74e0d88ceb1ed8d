#include "lib/storage/validation_record.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "lib/storage/digest.h"

namespace train {
namespace {

ValidationRecord record() {
  return {.checkpoint = CheckpointNumber{12},
          .status = ValidationStatus::Validated,
          .metrics = {{"val_acc", 0.5}, {"rows", std::int64_t{7}}},
          .error = "",
          .took_ms = 1250,
          .ended = "2026-11-21T09:38:00.123456Z"};
}

// This is the example of FORMAT.md.
TEST(ValidationRecord, HasThisShape) {
  EXPECT_EQ(format_validation(record()),
            "{\"format\":\"trainrun-validation\",\n\"version\":1,\n\"checkpoint\":12,\n"
            "\"status\":\"validated\",\n\"metrics\":{\"val_acc\":5E-1,\"rows\":7},\n"
            "\"non_finite\":{},\n\"error\":\"\",\n\"took_ms\":1250,\n"
            "\"ended\":\"2026-11-21T09:38:00.123456Z\",\n"
            "\"digest\":\"f6f9596e91352de90dec536642867ac5\"}\n");
}

TEST(ValidationRecord, IsReadBackAsItWasWritten) {
  ValidationRecord failed = record();
  failed.status = ValidationStatus::TimedOut;
  failed.metrics = {{"up", std::numeric_limits<double>::infinity()}};
  failed.error = "it took \"longer\" than 2 s";
  for (const ValidationRecord& one : {record(), failed}) {
    const auto read = parse_validation(format_validation(one));
    ASSERT_TRUE(read) << read.error().describe();
    EXPECT_EQ(*read, one);
  }
}

TEST(ValidationRecord, IsCorruptWhenOneByteIsAnother) {
  const std::string text = format_validation(record());
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] ^= 1;
    const auto read = parse_validation(damaged);
    ASSERT_TRUE(read.has_error()) << i;
    EXPECT_EQ(read.error().code, Errc::Corrupt) << i;
  }
}

/// Return the example with `was` replaced, and the digest of the result.
std::string changed(const std::string& was, const std::string& is) {
  std::string text = format_validation(record());
  text = text.substr(0, text.find(",\n\"digest\""));
  text.replace(text.find(was), was.size(), is);
  return text + ",\n\"digest\":\"" + to_hex(digest_of(text)) + "\"}\n";
}

// Another program may have written it: its digest is right.
TEST(ValidationRecord, WithoutWhatItNeedsIsRefused) {
  const std::string kNumber = "'checkpoint' is not a number of at least 1";
  for (const auto& [was, is, why] : std::vector<std::array<std::string, 3>>{
           {"\"format\"", "\"f\"", "of another format"},
           {"\"trainrun-validation\"", "1", "of another format"},
           {"\"version\"", "\"v\"", "version -1"},
           {"\"version\":1", "\"version\":\"1\"", "version -1"},
           {"\"checkpoint\"", "\"c\"", kNumber},
           {"12", "0", kNumber},
           {"\"validated\"", "\"valid\"", "'status' is unknown"},
           {"\"metrics\"", "\"m\"", "'metrics' or 'non_finite' is not an object"},
           {"\"non_finite\":{}", "\"non_finite\":[]", "'metrics' or 'non_finite' is not an"}}) {
    const auto read = parse_validation(changed(was, is));
    ASSERT_TRUE(read.has_error()) << is;
    EXPECT_EQ(read.error().code, Errc::InvalidArgument) << is;
    EXPECT_NE(read.error().describe().find(why), std::string::npos) << read.error().describe();
  }
  EXPECT_EQ(*parse_validation(changed("\"error\"", "\"e\"")), record());
}

TEST(ValidationRecord, ItsMetricsLieOverTheReportedOnes) {
  const Metrics reported{{"epoch", std::int64_t{3}}, {"val_acc", 0.1}};
  EXPECT_EQ(merge_metrics(reported, record()),
            (Metrics{{"epoch", std::int64_t{3}}, {"val_acc", 0.5}, {"rows", std::int64_t{7}}}));
  EXPECT_EQ(merge_metrics(reported, std::nullopt), reported);
}

TEST(ValidationResult, IsOneFlatObjectOfMetrics) {
  const auto metrics = parse_validation_result(
      R"({"acc": 0.5, "n": 3, "ok": true, "by": "NaN \" script", "val": {"f1": {"macro": 1.0}}})");
  ASSERT_TRUE(metrics) << metrics.error().describe();
  EXPECT_EQ(*metrics, (Metrics{{"acc", 0.5},
                               {"n", std::int64_t{3}},
                               {"ok", true},
                               {"by", std::string("NaN \" script")},
                               {"val.f1.macro", 1.0}}));
}

TEST(ValidationResult, MayHoldPythonsNumbers) {
  const auto metrics =
      parse_validation_result(R"({"a": NaN, "b": -Infinity, "c": {"d": Infinity}})");
  ASSERT_TRUE(metrics) << metrics.error().describe();
  EXPECT_TRUE(std::isnan(std::get<double>(metrics->at(0).second)));
  EXPECT_EQ(std::get<double>(metrics->at(1).second), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(std::get<double>(metrics->at(2).second), std::numeric_limits<double>::infinity());
}

TEST(ValidationResult, OfAnotherShapeSaysWhatIsWrong) {
  const auto mistake = [](std::string_view text) {
    const auto metrics = parse_validation_result(text);
    return metrics ? "none" : metrics.error().message;
  };
  EXPECT_EQ(mistake("[1]"), "no JSON object");
  EXPECT_TRUE(mistake("").starts_with("no JSON: "));
  EXPECT_TRUE(mistake("{\"a\": 1").starts_with("no JSON: "));
  EXPECT_EQ(mistake(R"({"a": {"b": null}})"),
            "'a.b' is not a number, bool or string, as a metric must be");
  EXPECT_EQ(mistake(R"({"a": [1]})"), "'a' is not a number, bool or string, as a metric must be");
  EXPECT_EQ(mistake(R"({"a.b": 1, "a": {"b": 2}})"), "'a.b' is there twice");
}

}  // namespace
}  // namespace train
