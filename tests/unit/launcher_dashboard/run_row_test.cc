#include "launcher/dashboard/run_row.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/base/time.h"

namespace train {
namespace {

using testing::ElementsAre;

RunRow row(const std::string& name, const std::string& state, const std::string& began) {
  RunRow row;
  row.id = row.name = name;
  row.state = state;
  row.live = state == "running";
  row.began = began;
  return row;
}

std::vector<RunRow> rows() {
  auto all =
      std::vector{row("a", "running", "2"), row("b", "finished", "3"), row("c", "errored", "1")};
  all[2].cause = "rank 3 was KILLED";
  all[1].workers = 8;
  return all;
}

std::vector<std::string> names(const RunQuery& query, std::size_t expected_matching) {
  const auto all = rows();
  std::size_t matching = 0;
  std::vector<std::string> names;
  for (const RunRow* row : select_rows(all, query, matching)) names.push_back(row->name);
  EXPECT_EQ(matching, expected_matching);
  return names;
}

TEST(RunRows, TheNewestIsFirstUnlessTheQuerySaysOtherwise) {
  EXPECT_THAT(names({}, 3), ElementsAre("b", "a", "c"));
  EXPECT_THAT(names({.sort = "name", .descending = false}, 3), ElementsAre("a", "b", "c"));
  EXPECT_THAT(names({.sort = "workers"}, 3), ElementsAre("b", "a", "c"));
  EXPECT_THAT(names({.skip = 1, .limit = 1}, 3), ElementsAre("a"));
  EXPECT_THAT(names({.skip = 9}, 3), ElementsAre());
}

TEST(RunRows, StatesAndWordsFilter) {
  RunQuery query;
  ASSERT_TRUE(parse_states("errored,live", query).has_value());
  EXPECT_THAT(names(query, 2), ElementsAre("a", "c"));
  EXPECT_THAT(names({.text = "killed"}, 1), ElementsAre("c"));
  EXPECT_EQ(parse_states("runing", query).error().message, "'runing' is no state of a run");
}

TEST(RunRows, ARunThatNobodyControlsAndThatHasNotEndedIsInterrupted) {
  RunView view;
  view.last_seq = 1;
  view.state = "running";
  view.began = "2026-11-26T10:00:00.000000Z";
  const auto now = parse_utc("2026-11-26T10:01:00.000000Z");
  RunRow left, live, ended;
  live.live = true;

  put_view(left, view, /*has_ended=*/false, "", now);
  put_view(live, view, false, "", now);
  view.state = "errored";
  view.ended = "2026-11-26T10:00:30.000000Z";
  put_view(ended, view, true, "out of memory", now);

  EXPECT_EQ(left.state, "interrupted");
  EXPECT_EQ(left.duration_s, std::nullopt);
  EXPECT_EQ(live.state, "running");
  EXPECT_EQ(live.duration_s, 60.0);
  EXPECT_EQ(ended.state, "errored");
  EXPECT_EQ(ended.duration_s, 30.0);
  EXPECT_EQ(ended.cause, "out of memory");
}

}  // namespace
}  // namespace train
