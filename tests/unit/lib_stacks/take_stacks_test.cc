// Stacks of real processes: what is found, and how it is named.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/lib_stacks/target.h"

namespace train::stacks_test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

/// Return the number of the line of target.cc that ends with a comment.
std::uint32_t line_of(const std::string& comment) {
  std::ifstream source(TRAIN_SOURCE_DIR "/tests/unit/lib_stacks/programs/target.cc");
  std::uint32_t number = 0;
  for (std::string line; std::getline(source, line);) {
    ++number;
    if (line.ends_with(comment)) return number;
  }
  return 0;
}

std::string copy_of_target(const std::string& name) {
  const fs::path copy = fs::temp_directory_path() / (name + std::to_string(::getpid()));
  fs::copy_file(TARGET, copy, fs::copy_options::overwrite_existing);
  return copy;
}

TEST(TakeStacks, ShowsAReadDownToTheStart) {
  Target target({"read"});
  ASSERT_TRUE(target.reaches("read"));

  const ProcessStacks stacks = stacks_of(target);

  ASSERT_EQ(stacks.threads.size(), 1u);
  const ThreadStack& thread = stacks.threads[0];
  EXPECT_EQ(thread.facts.tid, target.pid());
  EXPECT_EQ(thread.facts.state, 'S');
  EXPECT_EQ(thread.facts.syscall, "read");
  EXPECT_EQ(thread.facts.note, "");
  EXPECT_GT(thread.facts.stopped_for, Duration{0});
  EXPECT_THAT(thread.frames.front().module, HasSubstr("libc"));
  EXPECT_THAT(thread.frames.front().function, HasSubstr("read"));
  ASSERT_NE(frame_named(thread, "training::load_rows(int)"), nullptr) << functions_of(thread);
  EXPECT_THAT(frame_named(thread, "training::load_rows(int)")->file, HasSubstr("target.cc"));
  ASSERT_NE(frame_named(thread, "main"), nullptr) << functions_of(thread);
  EXPECT_EQ(thread.frames.back().function, "_start");
  EXPECT_THAT(stacks.notes, IsEmpty());
  EXPECT_TRUE(target.ends_well());
}

TEST(TakeStacks, ShowsBothThreadsOfADeadlock) {
  Target target({"deadlock"});
  ASSERT_TRUE(fakes::eventually([&] {
    const auto threads = threads_of(target.pid());
    return threads && threads->size() == 2 &&
           thread_facts(target.pid(), threads->at(0)).syscall == "futex" &&
           thread_facts(target.pid(), threads->at(1)).syscall == "futex";
  }));

  const ProcessStacks stacks = stacks_of(target);

  ASSERT_EQ(stacks.threads.size(), 2u);
  EXPECT_EQ(stacks.threads[1].facts.name, "other");
  EXPECT_NE(frame_named(stacks.threads[0], "void training::lock_both<double>"), nullptr)
      << functions_of(stacks.threads[0]);
  EXPECT_NE(frame_named(stacks.threads[1], "void training::lock_both<char>"), nullptr)
      << functions_of(stacks.threads[1]);
}

TEST(TakeStacks, ShowsAConditionAndASleep) {
  Target condition({"condition"});
  Target sleeper({"sleep"});
  ASSERT_TRUE(condition.reaches("futex"));

  const auto stacks = take_stacks({condition.pid(), sleeper.pid()}, soon());

  ASSERT_TRUE(stacks.has_value());
  const ThreadStack& waiting = stacks->at(0).threads.at(0);
  EXPECT_NE(frame_named(waiting, "training::await_batch"), nullptr) << functions_of(waiting);
  const ThreadStack& asleep = stacks->at(1).threads.at(0);
  EXPECT_NE(frame_named(asleep, "main"), nullptr) << functions_of(asleep);
  EXPECT_TRUE(condition.ends_well());
  EXPECT_TRUE(sleeper.ends_well());
}

TEST(TakeStacks, ShowsInlinedFunctionsOfAnEndlessLoopWithTheirLines) {
  Target target({"spin"});

  const ProcessStacks stacks = stacks_of(target);

  const ThreadStack& thread = stacks.threads.at(0);
  const StackFrame* inner = frame_named(thread, "training::innermost()");
  const StackFrame* middle = frame_named(thread, "training::middle()");
  const StackFrame* spin = frame_named(thread, "training::spin()");
  ASSERT_TRUE(inner != nullptr && middle != nullptr && spin != nullptr) << functions_of(thread);
  EXPECT_EQ(inner->line, line_of("// the line that the test looks for: innermost"));
  EXPECT_EQ(middle->line, line_of("// middle"));
  EXPECT_EQ(spin->line, line_of("// spin"));
  EXPECT_TRUE(inner->inlined && middle->inlined);
  EXPECT_FALSE(spin->inlined);
  EXPECT_TRUE(target.goes_on());
}

TEST(TakeStacks, NeedsNoFramePointers) {
  Target target({"spin"}, TARGET_WITHOUT_FRAME_POINTERS);

  const ProcessStacks stacks = stacks_of(target);

  const ThreadStack& thread = stacks.threads.at(0);
  EXPECT_NE(frame_named(thread, "training::spin()"), nullptr) << functions_of(thread);
  EXPECT_NE(frame_named(thread, "main"), nullptr) << functions_of(thread);
  EXPECT_FALSE(thread.frames.back().guessed);
  EXPECT_EQ(thread.frames.back().function, "_start");
}

TEST(TakeStacks, GuessesOnceWhereCodeSaysNothing) {
  Target target({"assembly"}, TARGET_WITHOUT_FRAME_POINTERS);

  const ProcessStacks stacks = stacks_of(target);

  const ThreadStack& thread = stacks.threads.at(0);
  const StackFrame* bare = frame_named(thread, "bare_assembly");
  const StackFrame* main = frame_named(thread, "main");
  ASSERT_TRUE(bare != nullptr && main != nullptr) << functions_of(thread);
  EXPECT_FALSE(bare->guessed);
  EXPECT_TRUE(main->guessed);
  EXPECT_EQ(thread.frames.back().function, "_start") << functions_of(thread);
}

TEST(TakeStacks, ShowsWhatASignalInterrupted) {
  Target target({"handler"});
  ASSERT_TRUE(target.reaches("read"));

  const ProcessStacks stacks = stacks_of(target);

  const ThreadStack& thread = stacks.threads.at(0);
  EXPECT_NE(frame_named(thread, "training::load_rows"), nullptr) << functions_of(thread);
  EXPECT_NE(frame_named(thread, "main"), nullptr) << functions_of(thread);
  EXPECT_TRUE(target.ends_well());
}

TEST(TakeStacks, ShowsModuleAndOffsetOfAStrippedProgram) {
  Target target({"read"}, TARGET_STRIPPED);
  ASSERT_TRUE(target.reaches("read"));

  const ProcessStacks stacks = stacks_of(target);

  const ThreadStack& thread = stacks.threads.at(0);
  const auto nameless = std::find_if(
      thread.frames.begin(), thread.frames.end(),
      [](const StackFrame& frame) { return frame.module == "lib_stacks_target_stripped"; });
  ASSERT_NE(nameless, thread.frames.end()) << functions_of(thread);
  EXPECT_EQ(nameless->function, "");
  EXPECT_GT(nameless->offset, 0u);
  EXPECT_NE(frame_named(thread, "__libc_start"), nullptr) << functions_of(thread);
}

TEST(TakeStacks, NamesTheFunctionsOfADeletedProgram) {
  const std::string copy = copy_of_target("deleted");
  Target target({"read"}, copy);
  ASSERT_TRUE(target.reaches("read"));
  fs::remove(copy);

  const ProcessStacks stacks = stacks_of(target);

  const ThreadStack& thread = stacks.threads.at(0);
  EXPECT_NE(frame_named(thread, "training::load_rows"), nullptr) << functions_of(thread);
  EXPECT_THAT(stacks.executable, HasSubstr("(deleted)"));
}

TEST(TakeStacks, IsNotMisledByAProgramThatWasReplaced) {
  const std::string copy = copy_of_target("replaced"), other = copy_of_target("other");
  Target target({"read"}, copy);
  ASSERT_TRUE(target.reaches("read"));
  std::ofstream(other) << "not a program";
  fs::rename(other, copy);

  const ProcessStacks stacks = stacks_of(target);

  const ThreadStack& thread = stacks.threads.at(0);
  EXPECT_NE(frame_named(thread, "training::load_rows"), nullptr) << functions_of(thread);
  fs::remove(copy);
}

TEST(TakeStacks, CutsADeepRecursionAndSaysSo) {
  Target target({"deep"});
  ASSERT_TRUE(target.reaches("read"));

  const ProcessStacks stacks = stacks_of(target);

  EXPECT_EQ(stacks.threads.at(0).frames.size(), kStackFramesMax);
  EXPECT_THAT(stacks.threads.at(0).facts.note, HasSubstr("only the innermost 512 frames"));
}

TEST(TakeStacks, ShowsAllOf64ThreadsInAMoment) {
  Target target({"many"});
  ASSERT_TRUE(fakes::eventually([&] {
    const auto threads = threads_of(target.pid());
    return threads && threads->size() == 65 &&
           std::all_of(threads->begin(), threads->end(),
                       [&](pid_t tid) { return thread_state(target.pid(), tid) == 'S'; });
  }));

  const ProcessStacks stacks = stacks_of(target);

  ASSERT_EQ(stacks.threads.size(), 65u);
  const auto waiting = std::count_if(
      stacks.threads.begin(), stacks.threads.end(),
      [](const ThreadStack& thread) { return frame_named(thread, "training::await_batch"); });
  EXPECT_EQ(waiting, 64);
  EXPECT_TRUE(target.ends_well());
}

TEST(TakeStacks, TellsOfEachProcessWhatIsKnown) {
  Target target({"read"});
  ASSERT_TRUE(target.reaches("read"));
  const pid_t none = 1 << 22;  // beyond the kernel's limit

  const auto stacks = take_stacks({none, target.pid()}, soon());

  ASSERT_TRUE(stacks.has_value());
  ASSERT_EQ(stacks->size(), 2u);
  EXPECT_EQ(stacks->at(0).pid, none);
  EXPECT_THAT(stacks->at(0).notes.at(0), HasSubstr("no stacks: "));
  EXPECT_THAT(stacks->at(1).threads.at(0).frames, testing::Not(IsEmpty()));
}

TEST(TakeStacks, KeepsTheFactsIfTheUnwinderFails) {
  Target target({"read"});
  ASSERT_TRUE(target.reaches("read"));

  const ProcessStacks missing = stacks_of(target, {.unwinder = "/nonexistent/program"});
  const ProcessStacks failing = stacks_of(target, {.unwinder = "/bin/false"});

  EXPECT_EQ(missing.threads.at(0).facts.syscall, "read");
  EXPECT_THAT(missing.notes.at(0), HasSubstr("starting '/nonexistent/program'"));
  EXPECT_THAT(failing.notes.at(0), HasSubstr("ended with 1"));
  EXPECT_TRUE(target.ends_well());
}

TEST(TakeStacks, KillsAnUnwinderThatDoesNotEnd) {
  Target target({"read"});
  const fs::path script = fs::temp_directory_path() / ("hang" + std::to_string(::getpid()));
  std::ofstream(script) << "#!/bin/sh\nexec sleep 600\n";
  fs::permissions(script, fs::perms::owner_all);

  const auto stacks = take_stacks({target.pid()}, std::chrono::steady_clock::now() + seconds{2},
                                  {.unwinder = script});

  ASSERT_TRUE(stacks.has_value());
  EXPECT_THAT(stacks->at(0).notes.at(0), HasSubstr("did not end in time and was killed"));
  fs::remove(script);
}

}  // namespace
}  // namespace train::stacks_test
