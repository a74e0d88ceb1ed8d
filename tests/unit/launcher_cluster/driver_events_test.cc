// What programs that follow a run are told, and in which order.
#include "launcher/cluster/run/driver_events.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "launcher/cluster/run/driver_port.h"
#include "launcher/report/summary.h"

namespace train {
namespace {

class Events : public testing::Test {
 protected:
  Events() {
    stream.add([this](const std::string& line, bool newest) {
      told.push_back(std::string(boost::json::parse(line).at("event").as_string()) +
                     (newest ? " (newest)" : ""));
    });
  }
  void phase(const char* text) {
    stream.tell([&](Progress& progress) { return progress.phase(text, at); });
  }
  Moment at{};
  DriverEvents stream{{.run = "job", .path = "/runs/job"}, at};
  std::vector<std::string> told;
};

TEST_F(Events, AreToldAtOnce) {
  phase("preparing");
  stream.logged(100, at);
  stream.logged(100, at);
  stream.logged(200, at);
  EXPECT_EQ(told, (std::vector<std::string>{"phase", "logged (newest)", "logged (newest)"}));
}

TEST_F(Events, AfterAnAttemptsEndTheyWaitForItsReports) {
  stream.hold_until(3);
  phase("restarting");
  stream.hold_until(4);
  phase("restarting again");
  stream.flushed(2);
  stream.logged(100, at);
  EXPECT_EQ(told, std::vector<std::string>{"logged (newest)"});
  stream.flushed(3);
  EXPECT_EQ(told, (std::vector<std::string>{"logged (newest)", "phase"}));
  stream.flushed(4);
  phase("running");
  EXPECT_EQ(told.size(), 4u);
  stream.hold_until(4);  // done long ago
  phase("running");
  EXPECT_EQ(told.size(), 5u);
}

TEST_F(Events, HaveNoReports) {
  const ReportRecord report{.rank = 0, .attempt = 0, .report_seq = 1, .metrics = {{"loss", 0.5}}};
  stream.tell([&](Progress& progress) { return progress.reports({&report, 1}, at); });
  stream.tell([&](Progress& progress) { return progress.finish(at); });
  EXPECT_TRUE(told.empty());
}

TEST(DriverCommands, AreReadOrNamed) {
  EXPECT_TRUE(parse_driver_command(R"({"command": "stop"})"));
  EXPECT_TRUE(parse_driver_command(R"({"command": "stop", "more": 1})"));
  for (const char* line :
       {"", "stop", "{", "[]", "{}", R"({"command": null})", R"({"command": "Stop"})"})
    EXPECT_FALSE(parse_driver_command(line)) << line;
  const auto acknowledged =
      parse_driver_command(R"({"command": "acknowledge", "attempt": 2, "round": 70000000000})");
  ASSERT_TRUE(acknowledged);
  EXPECT_EQ(acknowledged->kind, DriverCommand::Kind::Acknowledge);
  EXPECT_EQ(acknowledged->attempt, Attempt{2});
  EXPECT_EQ(acknowledged->rounds, 70'000'000'000u);
  for (const char* rest :
       {"", R"(, "attempt": 0)", R"(, "attempt": -1, "round": 1)",
        R"(, "attempt": 4294967296, "round": 1)", R"(, "attempt": 0, "round": 9223372036854775808)",
        R"(, "attempt": 0, "round": -1)", R"(, "attempt": 0, "round": "1")"}) {
    const auto wrong = parse_driver_command(fmt::format(R"({{"command": "acknowledge"{}}})", rest));
    ASSERT_FALSE(wrong) << rest;
    EXPECT_TRUE(wrong.error().message.starts_with(
        "the driver sent an acknowledgement without attempt or round"))
        << wrong.error().message;
  }
  const auto release = parse_driver_command(R"({"command": "release", "patience_ms": 600000})");
  ASSERT_TRUE(release);
  EXPECT_EQ(release->kind, DriverCommand::Kind::Release);
  EXPECT_EQ(release->patience, std::chrono::minutes(10));
  for (const char* rest : {"", R"(, "patience_ms": -1)", R"(, "patience_ms": 600001)",
                           R"(, "patience_ms": 9223372036854775808)", R"(, "patience_ms": 0.5)"}) {
    const auto wrong = parse_driver_command(fmt::format(R"({{"command": "release"{}}})", rest));
    ASSERT_FALSE(wrong) << rest;
    EXPECT_TRUE(wrong.error().message.starts_with(
        "the driver sent a release without patience_ms, 0 to 600000"))
        << wrong.error().message;
  }
  const std::string deep(100'000, '[');
  const auto nested = parse_driver_command(deep);
  ASSERT_FALSE(nested);
  EXPECT_LT(nested.error().message.size(), 300u);
}

TEST(ExceptionEvent, NamesAsManyRanksAsFit) {
  ExceptionNews news{.attempt = 2, .cause = "rank 7 failed"};
  for (int rank = 0; rank < 100; ++rank) {
    WorkerFailure failure{.kind = EndKind::Exited, .rank = rank, .node = "n1"};
    failure.end.status = 3;
    failure.end.error = UserError{
        .what = std::string(70'000, '\x01'), .type = "E", .stack = std::string(300'000, 's')};
    news.ranks.push_back(failure);
  }
  const std::string line = exception_event(news, {});
  EXPECT_LE(line.size(), kExceptionBytesMax + 1000);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto event = boost::json::parse(line).as_object();
  const auto& ranks = event.at("ranks").as_array();
  EXPECT_GE(ranks.size(), 3u);
  EXPECT_EQ(event.at("omitted").to_number<int>(), 100 - static_cast<int>(ranks.size()));
  EXPECT_EQ(ranks[1].at("rank").to_number<int>(), 1);
  EXPECT_EQ(ranks[1].at("exit_code").to_number<int>(), 3);
  EXPECT_EQ(ranks[1].at("error").at("stack").as_string().size(), 32u << 10);
}

}  // namespace
}  // namespace train
