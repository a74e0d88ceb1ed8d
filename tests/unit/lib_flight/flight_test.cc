// Records in tests/golden/flight come from LibTorch itself; record.py there says how.
#include <gtest/gtest.h>

#include <string>

#include "lib/base/text_file.h"
#include "lib/flight/flight_comparison.h"
#include "lib/flight/flight_record.h"

namespace train {
namespace {

using Lines = std::vector<std::string>;

std::string recorded(const std::string& name) {
  return read_text(TRAIN_SOURCE_DIR "/tests/golden/flight/" + name);
}

std::map<std::int32_t, FlightRecord> recorded_ranks(const std::vector<int>& ranks) {
  std::map<std::int32_t, FlightRecord> records;
  for (const int rank : ranks)
    records[rank] = read_flight_record(recorded("rank-" + std::to_string(rank))).value();
  return records;
}

TEST(FlightRecord, ReadsWhatLibTorchWrites) {
  const auto record = read_flight_record(recorded("rank-1"));

  ASSERT_TRUE(record) << record.error().message;
  ASSERT_EQ(record->groups.size(), 1U);
  const auto& [name, group] = *record->groups.begin();
  EXPECT_EQ(name, "default_pg (0)");
  EXPECT_EQ(group, (FlightGroup{.made = 3,
                                .completed = 2,
                                .calls = {{1, {"all_reduce", "Float [4]"}},
                                          {2, {"broadcast", "Float [4]"}},
                                          {3, {"all_reduce", "Float [6, 2]"}}}}));
}

TEST(FlightRecord, KeepsTheNewestCalls) {
  const auto record = read_flight_record(recorded("rank-1"), 2);
  ASSERT_TRUE(record);
  const FlightGroup& group = record->groups.begin()->second;
  EXPECT_EQ(group.made, 3);
  ASSERT_EQ(group.calls.size(), 2U);
  EXPECT_EQ(group.calls.begin()->first, 2);
}

// 40,000 entries refer to one list of 700,000 sizes: copies of it would take minutes.
TEST(FlightRecord, EntriesThatShareALongListCostWhatTheyHaveAsBytes) {
  const auto text = [](const std::string& value) {
    return "\x8c" + std::string(1, static_cast<char>(value.size())) + value;
  };
  const std::string list = std::string("q\0", 2), sizes = "q\x01", number = "q\x02";
  std::string bytes = "}(" + text("version") + text("2.1") + text("x") + "](";
  bytes += std::string(700'000, 'N') + "e" + list;
  bytes += text("input_sizes") + sizes + text("collective_seq_id") + number;
  bytes += text("entries") + "](";
  for (int i = 0; i < 40'000; ++i) {
    bytes += std::string("}(h\x01h\0h\x02M", 9);
    bytes += {static_cast<char>(i & 0xff), static_cast<char>(i >> 8), 'u'};
  }
  bytes += "eu.";

  const auto record = read_flight_record(bytes);

  ASSERT_TRUE(record) << record.error().message;
  EXPECT_EQ(record->groups.at("a group").made, 39'999);
  EXPECT_EQ(record->groups.at("a group").calls.size(), 4096U);
}

TEST(FlightRecord, ReadsOneOfNcclWithoutCalls) {
  const auto record = read_flight_record(recorded("nccl-without-calls"));
  ASSERT_TRUE(record) << record.error().message;
  EXPECT_TRUE(record->groups.empty());
}

TEST(FlightRecord, RefusesWhatIsNoneOrNotComplete) {
  EXPECT_FALSE(read_flight_record(""));
  EXPECT_FALSE(read_flight_record("N."));
  EXPECT_FALSE(read_flight_record("}."));
  const std::string whole = recorded("rank-0");
  for (std::size_t size = 0; size < whole.size(); size += 7)
    EXPECT_FALSE(read_flight_record(whole.substr(0, size))) << size;
}

// Whatever a byte is changed to, the record is read or refused.
TEST(FlightRecord, SurvivesDamage) {
  const std::string whole = recorded("rank-0");
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const int flip : {0x01, 0x80, 0xff}) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ flip);
      std::map<std::int32_t, FlightRecord> ranks = recorded_ranks({1});
      if (auto record = read_flight_record(damaged)) ranks[0] = std::move(*record);
      EXPECT_LE(compare_flight_records(ranks).size(), 9U);
    }
  }
}

TEST(FlightComparison, NamesWhoLacksACallAndWhichSizesDiffer) {
  EXPECT_EQ(compare_flight_records(recorded_ranks({0, 1, 2})),
            (Lines{"collective call 3 of default_pg (0) differs: rank 0 in all_reduce of Float [4, "
                   "2], rank 1 in all_reduce of Float [6, 2]",
                   "rank 2 has not made collective call 3 (all_reduce of Float [4, 2]) of "
                   "default_pg (0), which ranks 0-1 have made"}));
  EXPECT_EQ(compare_flight_records(recorded_ranks({0, 2})),
            (Lines{"rank 2 has not made collective call 3 (all_reduce of Float [4, 2]) of "
                   "default_pg (0), which rank 0 has made"}));
  EXPECT_EQ(compare_flight_records(recorded_ranks({2})), Lines{});
  EXPECT_EQ(compare_flight_records({}), Lines{});
}

FlightGroup group(std::int64_t made, std::int64_t completed, const std::string& name = "all_reduce",
                  const std::string& sizes = "Float [4]") {
  FlightGroup group{.made = made, .completed = completed};
  for (std::int64_t i = std::max<std::int64_t>(1, made - 3); i <= made; ++i)
    group.calls[i] = {name, sizes};
  return group;
}
FlightRecord record(const FlightGroup& of_all) { return {{{"default_pg (0)", of_all}}}; }

TEST(FlightComparison, SaysThatNobodyLacksACall) {
  EXPECT_EQ(compare_flight_records({{0, record(group(41, 40))}, {1, record(group(41, 40))}}),
            (Lines{"all of ranks 0-1 have made collective call 41 (all_reduce of Float [4]) of "
                   "default_pg (0), and it has not ended: the cause is not a call that is "
                   "missing"}));
}

TEST(FlightComparison, SaysNothingOfGroupsThatWaitForNothing) {
  EXPECT_EQ(compare_flight_records({{0, record(group(41, 41))}, {1, record(group(41, 41))}}),
            Lines{});
}

TEST(FlightComparison, ARankThatHasMadeNoCallLacksTheFirst) {
  EXPECT_EQ(compare_flight_records({{0, record(group(1, 0))}, {7, {}}, {8, {}}}),
            (Lines{"ranks 7-8 have not made collective call 1 (all_reduce of Float [4]) of "
                   "default_pg (0), which rank 0 has made"}));
}

TEST(FlightComparison, CallsOfOtherKindsDoNotMatchWhateverTheirSizes) {
  EXPECT_EQ(compare_flight_records(
                {{0, record(group(5, 4))}, {1, record(group(5, 4, "broadcast", "Float [4]"))}}),
            (Lines{"collective call 5 of default_pg (0) differs: rank 0 in all_reduce of Float "
                   "[4], rank 1 in broadcast of Float [4]"}));
  // In these, sizes may differ by rank.
  const auto uneven = compare_flight_records({{0, record(group(5, 4, "gather", "Float [4]"))},
                                              {1, record(group(5, 4, "gather", "Float [9]"))}});
  ASSERT_EQ(uneven.size(), 1U);
  EXPECT_TRUE(uneven[0].starts_with("all of ranks 0-1 have made")) << uneven[0];
}

TEST(FlightComparison, OfOtherGroupsOnlyMembersCount) {
  const FlightRecord with{{{"tensor (1)", group(3, 2)}, {"default_pg (0)", group(9, 9)}}};
  const FlightRecord behind{{{"tensor (1)", group(2, 2)}, {"default_pg (0)", group(9, 9)}}};
  const FlightRecord without{{{"default_pg (0)", group(9, 9)}}};
  EXPECT_EQ(compare_flight_records({{0, with}, {1, behind}, {2, without}}),
            (Lines{"rank 1 has not made collective call 3 (all_reduce of Float [4]) of tensor (1), "
                   "which rank 0 has made"}));
}

// The recorder forgets its oldest calls.
TEST(FlightComparison, ACallThatTheOthersHaveForgottenIsNamedByItsNumber) {
  EXPECT_EQ(compare_flight_records({{0, record(group(100, 50))}, {1, record(group(50, 50))}}),
            (Lines{"rank 1 has not made collective call 51 of default_pg (0), which rank 0 has "
                   "made"}));
}

}  // namespace
}  // namespace train
