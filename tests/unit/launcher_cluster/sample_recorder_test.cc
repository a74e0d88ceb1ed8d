// What nodes tell of their ranks comes into files of the run's folder.
#include "launcher/cluster/run/sample_recorder.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "lib/net/within.h"
#include "lib/samples/sample_reader.h"
#include "tests/unit/launcher_cluster/fakes.h"
#include "tests/unit/lib_net/net_fixture.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class SampleRecorderTest : public NetTest {
 protected:
  void sample(int ranks, std::int64_t second, std::uint64_t steps) {
    RanksSampled event{.attempt = Attempt{0}};
    for (std::int32_t rank = 0; rank < ranks; ++rank) {
      RankSample sample{.rank = Rank{rank},
                        .progress = {.phase = Phase::Step, .steps = steps},
                        .process = {.pid = 7 + rank, .state = "R", .processes = 1}};
      sample.progress.intervals.resize(kPhases.size());
      event.ranks.push_back(std::move(sample));
    }
    recorder_.sampled("n0", second * 1'000'000, event);
  }
  /// Let a rank tell of its loop, and of a map that the loop waits for, for `second` seconds.
  void sample_data(std::int64_t second) {
    const auto one = [second](OperatorKind kind, const char* map, std::int64_t busy_s,
                              std::int64_t input_s) {
      return DataOperator{.dataset = "train",
                          .kind = kind,
                          .map = map,
                          .rows = 50 * second,
                          .busy_us = busy_s * 1'000'000,
                          .input_us = input_s * 1'000'000};
    };
    DataSamples message{.taken_us = (1 + second) * 1'000'000};
    message.ranks.push_back(
        {Rank{0},
         {one(OperatorKind::Decode, "", 0, second), one(OperatorKind::Map, "crop", second, 0),
          one(OperatorKind::Loop, "", 0, second)}});
    recorder_.data_sampled(Attempt{0}, message);
  }
  const SampleTable* find(const std::vector<SampleTable>& tables, SampleKind kind) const {
    for (const SampleTable& table : tables)
      if (table.kind == kind) return &table;
    return nullptr;
  }
  /// Let the recorder run until `done`, or 15 s.
  void record_until(const std::function<bool()>& done) {
    run([&]() -> asio::awaitable<void> {
      Scope scope(executor());
      scope.spawn("samples", recorder_.run());
      const TimePoint until = clock_.now() + seconds(15);
      while (!done() && clock_.now() < until) {
        const auto paused = co_await pause_for(milliseconds(20));
        if (!paused) break;
      }
      scope.cancel();
      co_await scope.join();
    });
  }
  std::vector<SampleTable> kept(SampleKind kind = SampleKind::Ranks) const {
    return read_samples(run_folder_.samples(), {.kind = kind}).value();
  }
  std::vector<SampleTable> newest() const {
    return read_newest_samples(run_folder_.newest_samples()).value();
  }

  SystemClock clock_;
  RecordedMessages messages_;
  const RunFolder run_folder_{folder_.string()};
  std::vector<DataBoundWatch::Change> said_;
  SampleRecorder recorder_{
      clock_, messages_, run_folder_,
      [this](const DataBoundWatch::Change& change) { said_.push_back(change); }};
};

TEST_F(SampleRecorderTest, KeepsWhatIsKnownOfEachRank) {
  sample(2, 1, 10);
  sample(2, 3, 14);
  record_until([this] { return !newest().empty(); });

  ASSERT_THAT(newest(), SizeIs(1));
  const SampleTable table = newest().front();
  EXPECT_THAT(table.rows, ElementsAre("0", "1"));
  EXPECT_EQ(table.text("node", 1), "n0");
  EXPECT_EQ(table.number("pid", 1), 8);
  EXPECT_EQ(table.number("steps_per_s", 1), 2);
  EXPECT_THAT(kept(), SizeIs(testing::Ge(1u)));
  EXPECT_THAT(messages_.warnings, IsEmpty());
}

TEST_F(SampleRecorderTest, KeepsWhatIsKnownOfEachNodeAndOfTheRunsFolder) {
  EXPECT_THAT(recorder_.node_told("n0", {.taken_us = 1'000'000, .node = {.cpus = 8}}), IsEmpty());
  sample(1, 1, 10);
  record_until([this] { return !kept(SampleKind::Nodes).empty(); });

  const auto nodes = kept(SampleKind::Nodes);
  ASSERT_FALSE(nodes.empty());
  EXPECT_THAT(nodes.front().rows, ElementsAre("n0"));
  EXPECT_EQ(nodes.front().number("cpus", 0), 8);
  EXPECT_GT(nodes.front().number("run_size", 0), 0);
  EXPECT_LE(nodes.front().number("run_free", 0), nodes.front().number("run_size", 0));
}

TEST_F(SampleRecorderTest, ShowsAllOfManyRanksButKeepsTheWorst) {
  sample(600, 1, 10);
  record_until([this] { return !newest().empty(); });

  EXPECT_THAT(newest().front().rows, SizeIs(600));
  EXPECT_THAT(kept().front().rows, SizeIs(kWorstRanks));
  EXPECT_EQ(kept(SampleKind::RankSums).front().number("ranks", 0), 600);
}

TEST_F(SampleRecorderTest, KeepsWhatDatasetsDo) {
  sample(1, 1, 10);
  sample_data(0);
  sample_data(4);
  record_until([this] { return find(newest(), SampleKind::Data) != nullptr; });
  sample_data(6);
  record_until([this] { return !kept(SampleKind::Data).empty(); });

  const auto tables = newest();
  const SampleTable* data = find(tables, SampleKind::Data);
  ASSERT_NE(data, nullptr);
  EXPECT_THAT(data->rows, ElementsAre("train/decode/all", "train/decode/0", "train/map crop/all",
                                      "train/map crop/0", "train/loop/all", "train/loop/0"));
  EXPECT_EQ(data->number("input_wait", 5), 1);
  EXPECT_EQ(kept(SampleKind::Data).front().number("rows_per_s", 5), 50);
  EXPECT_THAT(said_, IsEmpty());  // it has not lasted
  ASSERT_TRUE(recorder_.whole_run());
  EXPECT_EQ(recorder_.whole_run()->operation, "map crop");
}

// The ranks end one after the other; what the last second has is not the run.
TEST_F(SampleRecorderTest, LeavesWhatDatasetsDidInTheWholeRun) {
  sample(2, 1, 10);
  sample_data(0);
  sample_data(4);
  record_until([this] { return find(newest(), SampleKind::Data) != nullptr; });
  const std::int64_t first = newest().front().end_ms;
  sample(2, 2, 20);
  sample_data(4);
  record_until([&] { return newest().front().end_ms > first; });
  recorder_.ended(Attempt{0}, Rank{0});
  recorder_.last_write()();

  const auto tables = newest();
  std::ifstream file(run_folder_.newest_samples());
  EXPECT_EQ(std::count(std::istreambuf_iterator<char>(file), {}, '\n'),
            static_cast<std::ptrdiff_t>(tables.size()))
      << "only the newest second";
  EXPECT_NE(find(tables, SampleKind::Ranks), nullptr);
  const SampleTable* data = find(tables, SampleKind::Data);
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(data->number("rows_total", 5), 200);
}

TEST_F(SampleRecorderTest, LeavesTheNewestValuesWhenNoRankLives) {
  sample(1, 1, 10);
  record_until([this] { return !newest().empty(); });
  const std::int64_t end_ms = newest().front().end_ms;

  recorder_.ended(Attempt{0}, Rank{0});
  const TimePoint until = clock_.now() + milliseconds(1500);
  record_until([&] { return clock_.now() >= until; });

  EXPECT_EQ(newest().front().end_ms, end_ms);
  recorder_.last_write()();
}

TEST_F(SampleRecorderTest, SaysOnceThatNothingCanBeWritten) {
  ASSERT_EQ(::mkfifo(run_folder_.samples().c_str(), 0600), 0);
  sample(1, 1, 10);
  record_until([this] { return !messages_.warnings.empty(); });
  const TimePoint until = clock_.now() + milliseconds(1500);
  record_until([&] { return clock_.now() >= until; });

  EXPECT_THAT(messages_.warnings,
              ElementsAre(AllOf(HasSubstr("what is measured of the ranks is not kept"),
                                HasSubstr("is not a regular file"))));
  EXPECT_THAT(newest(), SizeIs(1));  // the other file is written all the same
}

}  // namespace
}  // namespace train
