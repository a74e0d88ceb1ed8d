// What a worker marks, the supervisor reads.
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <thread>

#include "lib/progress/progress_reader.h"
#include "lib/progress/progress_writer.h"

namespace train {
namespace {

constexpr std::uint64_t kMs = 1'000'000;

struct Loop : ::testing::Test {
  ProgressPage page;
  ProgressWriter writer{page, 100 * kMs};

  PhaseIntervals intervals_of(Phase phase) const {
    return read_progress(page, 0).intervals.at(static_cast<std::size_t>(phase));
  }
};

TEST(ProgressPage, OfAProgramThatHasMarkedNothingSaysNothing) {
  const ProgressPage page;
  EXPECT_EQ(read_progress(page, 5), WorkerProgress{});
}

TEST_F(Loop, BeginsWithTheStart) {
  const WorkerProgress progress = read_progress(page, 350 * kMs);
  EXPECT_EQ(progress.phase, Phase::Start);
  EXPECT_EQ(progress.quiet_us, 250'000);
  EXPECT_EQ(progress.steps, 0u);
}

TEST_F(Loop, IsInThePhaseThatItEnteredLast) {
  const auto outer = writer.enter(Phase::Own, "eval", 7 * kMs, 200 * kMs);
  const auto inner = writer.enter(Phase::Collective, "barrier", 0, 300 * kMs);
  WorkerProgress progress = read_progress(page, 301 * kMs);
  EXPECT_EQ(progress.phase, Phase::Collective);
  EXPECT_EQ(progress.name, "barrier");
  EXPECT_EQ(progress.limit_us, 0);
  EXPECT_EQ(progress.quiet_us, 1'000);

  writer.leave(inner, 400 * kMs);
  progress = read_progress(page, 450 * kMs);
  EXPECT_EQ(progress.phase, Phase::Own);
  EXPECT_EQ(progress.name, "eval");
  EXPECT_EQ(progress.limit_us, 7'000);
  EXPECT_EQ(progress.quiet_us, 50'000);  // leaving was a sign of life
  EXPECT_EQ(progress.collectives, 1u);

  writer.leave(outer, 500 * kMs);
  EXPECT_EQ(read_progress(page, 500 * kMs).phase, Phase::Start);
}

TEST_F(Loop, ReturnsToABasePhaseThatWasSetMeanwhile) {
  const auto outer = writer.enter(Phase::Data, "train", 0, 200 * kMs);
  writer.set_base(Phase::Step, 210 * kMs);
  EXPECT_EQ(read_progress(page, 210 * kMs).phase, Phase::Data);
  writer.leave(outer, 220 * kMs);
  EXPECT_EQ(read_progress(page, 230 * kMs).phase, Phase::Step);
  EXPECT_EQ(read_progress(page, 230 * kMs).name, "");
}

TEST_F(Loop, BooksTheTimeBetweenSignsOfLifeToThePhaseThatItPassedIn) {
  const auto outer = writer.enter(Phase::Data, "", 0, 130 * kMs);
  writer.leave(outer, 180 * kMs);
  writer.set_base(Phase::Step, 180 * kMs);
  writer.end_step(StepSource::Program, 200 * kMs);
  writer.end_step(StepSource::Program, 270 * kMs);
  EXPECT_EQ(intervals_of(Phase::Start), (PhaseIntervals{3, 30'000, 30'000}));
  EXPECT_EQ(intervals_of(Phase::Data), (PhaseIntervals{1, 50'000, 50'000}));
  EXPECT_EQ(intervals_of(Phase::Step), (PhaseIntervals{2, 90'000, 70'000}));
}

TEST_F(Loop, CountsStepsByTheBestSourceThatTheProgramHas) {
  writer.end_step(StepSource::Report, 110 * kMs);
  writer.end_step(StepSource::Backward, 120 * kMs);
  writer.end_step(StepSource::Report, 130 * kMs);  // from now on only said beside the steps
  EXPECT_EQ(read_progress(page, 130 * kMs).last_step_us, 0);  // the first of its source
  writer.end_step(StepSource::Backward, 150 * kMs);
  EXPECT_EQ(read_progress(page, 150 * kMs).steps, 3u);
  EXPECT_EQ(read_progress(page, 150 * kMs).last_step_us, 30'000);
}

TEST_F(Loop, IsPastTheStartOnceAStepHasEnded) {
  writer.end_step(StepSource::Report, 150 * kMs);
  EXPECT_EQ(read_progress(page, 150 * kMs).phase, Phase::Step);
  EXPECT_EQ(intervals_of(Phase::Start).count, 2u);
}

TEST_F(Loop, IsPastTheStartOnceAStepHasEndedWithinAPhase) {
  const auto outer = writer.enter(Phase::Collective, "gradients", 0, 110 * kMs);
  writer.end_step(StepSource::Report, 150 * kMs);
  EXPECT_EQ(read_progress(page, 150 * kMs).phase, Phase::Collective);
  writer.leave(outer, 160 * kMs);
  EXPECT_EQ(read_progress(page, 160 * kMs).phase, Phase::Step);
}

TEST_F(Loop, ShowsASignOfLifeOnlyWhenTheTextOfThePhaseChanges) {
  (void)writer.enter(Phase::Own, "download", 0, 200 * kMs);
  writer.say("1 of 9 GiB", 300 * kMs);
  writer.say("1 of 9 GiB", 400 * kMs);
  EXPECT_EQ(read_progress(page, 500 * kMs).quiet_us, 200'000);
  writer.say("2 of 9 GiB", 500 * kMs);
  EXPECT_EQ(read_progress(page, 500 * kMs).quiet_us, 0);
  EXPECT_EQ(read_progress(page, 500 * kMs).text, "2 of 9 GiB");
}

TEST_F(Loop, ForgetsTheTextWithThePhase) {
  const auto outer = writer.enter(Phase::Own, "download", 0, 200 * kMs);
  writer.say("1 of 9 GiB", 300 * kMs);
  writer.leave(outer, 400 * kMs);
  EXPECT_EQ(read_progress(page, 500 * kMs).text, "");
}

TEST_F(Loop, CutsNamesAndTextsThatAreTooLong) {
  (void)writer.enter(Phase::Own, std::string(1000, 'n'), 0, 200 * kMs);
  writer.say(std::string(1000, 't'), 300 * kMs);
  EXPECT_EQ(read_progress(page, 0).name, std::string(kPhaseNameBytesMax, 'n'));
  EXPECT_EQ(read_progress(page, 0).text, std::string(kPhaseTextBytesMax, 't'));
}

TEST_F(Loop, SaysHowLongItHadTrainedWhenItHandedACheckpointOver) {
  writer.end_step(StepSource::Report, 200 * kMs);  // the loop has begun
  writer.hand_over(1, 250 * kMs);
  const auto outer = writer.enter(Phase::Checkpoint, "", 0, 300 * kMs);
  writer.hand_over(2, 400 * kMs);  // what passes in a checkpoint is no step
  writer.leave(outer, 500 * kMs);
  EXPECT_EQ(read_progress(page, 600 * kMs).handed_over,
            (std::vector<HandedOverCheckpoint>{{1, 50'000}, {2, 100'000}}));
  for (std::uint64_t next = 3; next <= 6; ++next) writer.hand_over(next, 500 * kMs);
  EXPECT_EQ(
      read_progress(page, 600 * kMs).handed_over,
      (std::vector<HandedOverCheckpoint>{{4, 100'000}, {5, 100'000}, {6, 100'000}, {3, 100'000}}));
}

TEST(ProgressPage, IsReadWhateverItsVersion) {
  ProgressPage page;
  ProgressWriter writer(page, kMs);
  for (const std::uint32_t version : {1u, ProgressPage::kVersion + 1}) {
    page.version.store(version);
    EXPECT_EQ(read_progress(page, 2 * kMs).phase, Phase::Start) << version;
  }
}

TEST_F(Loop, GoesOnInAnotherPageWithWhatItKnows) {
  writer.hand_over(7, 150 * kMs);
  (void)writer.enter(Phase::Own, "eval", 9 * kMs, 200 * kMs);
  writer.say("half", 250 * kMs);
  writer.end_step(StepSource::Report, 260 * kMs);
  const WorkerProgress before = read_progress(page, 300 * kMs);
  ProgressPage other;
  writer.move_to(other);
  EXPECT_EQ(read_progress(other, 300 * kMs), before);
  writer.end_step(StepSource::Report, 310 * kMs);
  EXPECT_EQ(read_progress(other, 310 * kMs).steps, 2u);
  EXPECT_EQ(read_progress(page, 310 * kMs).steps, 1u);
}

TEST(ProgressPage, GivesSaneValuesWhateverAWorkerWrites) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    alignas(ProgressPage) std::array<unsigned char, sizeof(ProgressPage)> bytes{};
    for (unsigned char& byte : bytes) byte = static_cast<unsigned char>(random());
    auto* page = reinterpret_cast<ProgressPage*>(bytes.data());
    page->version.store(ProgressPage::kVersion);
    if (round % 2 == 0) page->phase.store(random() % kPhases.size());
    page->writes.store(round % 3 == 0 ? 1 : 2);  // 1: stopped in the middle of a mark
    const WorkerProgress progress = read_progress(*page, 1);
    EXPECT_LT(static_cast<std::size_t>(progress.phase), kPhases.size());
    EXPECT_GE(progress.quiet_us, 0);
    EXPECT_GE(progress.limit_us, 0);
    EXPECT_EQ(progress.name.find('\x1b'), std::string::npos);
    EXPECT_EQ(progress.text.find('\n'), std::string::npos);
    for (const PhaseIntervals& intervals : progress.intervals) EXPECT_GE(intervals.longest_us, 0);
  }
}

// A reader that took a page in the middle of a mark would see a name that is not of its phase.
TEST(ProgressPage, IsReadAsAWholeWhileItIsWritten) {
  ProgressPage page;
  std::atomic<bool> done = false;
  std::thread loop([&] {
    ProgressWriter writer(page, 1);
    const std::string own(kPhaseNameBytesMax, 'o');
    const std::string call(kPhaseNameBytesMax, 'c');
    for (std::uint64_t now = 2; !done; ++now) {
      const auto outer = writer.enter(now % 2 == 0 ? Phase::Own : Phase::Collective,
                                      now % 2 == 0 ? own : call, 0, now);
      writer.leave(outer, now);
      std::atomic<int> work = 0;
      while (work.fetch_add(1, std::memory_order_relaxed) < 50'000) {
      }
    }
  });
  while (page.signs.load() == 0) std::this_thread::yield();
  for (int i = 0; i < 2'000; ++i) {
    const WorkerProgress progress = read_progress(page, std::numeric_limits<std::uint64_t>::max());
    const char letter = progress.phase == Phase::Own ? 'o' : 'c';
    if (progress.phase == Phase::Own || progress.phase == Phase::Collective)
      ASSERT_EQ(progress.name, std::string(kPhaseNameBytesMax, letter));
  }
  done = true;
  loop.join();
}

}  // namespace
}  // namespace train
