// Parsers of small texts: cursors of logs, ids of files, resolved specs; and the frames of events.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/dashboard/event_stream.h"
#include "launcher/dashboard/log_cursor.h"
#include "launcher/dashboard/run_file_id.h"
#include "launcher/dashboard/run_spec.h"

namespace train {
namespace {

TEST(LogCursor, IsReadAsItWasWritten) {
  const LogCursor cursor{{{{0, 1}, 812}, {{0, 2}, 0}, {{3, 2}, 90}}};

  EXPECT_EQ(log_cursor_text(cursor), "0.1.812_3.2.90");
  EXPECT_EQ(parse_log_cursor("0.1.812_3.2.90").value().positions,
            (std::map<StreamKey, std::uint64_t>{{{0, 1}, 812}, {{3, 2}, 90}}));
  EXPECT_TRUE(parse_log_cursor("").value().positions.empty());
}

TEST(LogCursor, AnyOtherTextIsRefused) {
  for (const char* text : {"x", "0", "0.1", "0.1.", "0.1.-5", "0.1.5,", "0.1.5 ", "..", "0.1.5x"})
    EXPECT_FALSE(parse_log_cursor(text).has_value()) << text;
  std::string many = "0.1.1";
  for (std::size_t i = 0; i < kLogStreamsMax; ++i) many += "_0.1.1";
  EXPECT_TRUE(parse_log_cursor(many).has_value());  // the same stream again and again
}

TEST(RunFileId, TellsWhatAFileIs) {
  const auto stacks = parse_run_file_id("attempts/002/stacks/20261126-125036.038-hung.json");
  EXPECT_EQ(stacks->kind, "stacks");
  EXPECT_EQ(stacks->attempt, 2);
  EXPECT_EQ(stacks->why, "hung");
  const auto profile =
      parse_run_file_id("attempts/000/profiles/20261126-125036-rank-0003-cpu.html");
  EXPECT_EQ(profile->kind, "profile");
  EXPECT_EQ(profile->rank, 3);
  EXPECT_EQ(profile->why, "cpu");
  const auto log = parse_run_file_id("attempts/000/ranks/0001/stderr.log");
  EXPECT_EQ(log->kind, "log");
  EXPECT_EQ(log->rank, 1);
  EXPECT_EQ(log->why, "err");
  EXPECT_EQ(parse_run_file_id("train-run.log")->why, "launcher");
}

TEST(RunFileId, OtherFilesAreNotHandedOut) {
  for (const char* path :
       {"", "spec.yaml", ".owner", ".lock", "attempts", "attempts/000/cause.json",
        "attempts/../stacks/a", "attempts/000/stacks/.hidden", "attempts/000/stacks/..",
        "attempts/000/stacks/a/b", "attempts/x/stacks/a", "attempts/000/ranks/0001/error.json",
        "attempts/000/ranks/../stdout.log", "attempts/000/checkpoints/a", "/etc/passwd",
        "attempts/000/stacks/a\nb", "attempts/000/stacks/a b", "attempts//stacks/a"})
    EXPECT_FALSE(parse_run_file_id(path).has_value()) << path;
}

TEST(FlatFields, ArePathsAndValues) {
  const std::string yaml =
      "name: job\ncommand: [\"a b\"]\nenv:\n  OMP: \"1\"\n  \"odd: key\": x\nscaling_config:\n"
      "  num_workers: 2\n  resources_per_worker:\n    CPU: 1\nstop: {}\nnotify:\n"
      "  - on: [failed]\n    command: [x]\n  - on: [hung]\nlist:\n  - a\n  - b\nlast: ~  # why\n";

  using Fields = std::map<std::string, std::string>;
  EXPECT_EQ(flat_fields(yaml), (Fields{{"name", "job"},
                                       {"command", "[\"a b\"]"},
                                       {"env.OMP", "1"},
                                       {"env.odd: key", "x"},
                                       {"scaling_config.num_workers", "2"},
                                       {"scaling_config.resources_per_worker.CPU", "1"},
                                       {"stop", "{}"},
                                       {"notify.0.on", "[failed]"},
                                       {"notify.0.command", "[x]"},
                                       {"notify.1.on", "[hung]"},
                                       {"list.0", "a"},
                                       {"list.1", "b"},
                                       {"last", "~  # why"}}));
  EXPECT_TRUE(flat_fields("").empty());
}

TEST(EventFrame, HasItsTopicItsIdAndOneLineOfData) {
  EXPECT_EQ(event_frame("run", "7;0.1.5", "{\"a\":1}"),
            "event: run\nid: 7;0.1.5\ndata: {\"a\":1}\n\n");
}

}  // namespace
}  // namespace train
