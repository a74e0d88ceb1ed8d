// Profiles of real processes.
#include "lib/profile/sampling/take_profile.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <spawn.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <thread>

#include "lib/base/file_descriptor.h"
#include "lib/profile/report/hot_functions.h"
#include "lib/profile/report/profile_formats.h"
#include "lib/stacks/proc_files.h"
#include "tests/fakes/eventually.h"

namespace train {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

/// A process that does what its argument says; killed at the end.
class Busy {
 public:
  explicit Busy(std::string mode) {
    int input[2], output[2];
    EXPECT_EQ(::pipe2(input, O_CLOEXEC) | ::pipe2(output, O_CLOEXEC), 0);
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_adddup2(&files, input[0], 0);
    ::posix_spawn_file_actions_adddup2(&files, output[1], 1);
    std::string program = BUSY;
    char* const words[] = {program.data(), mode.data(), nullptr};
    EXPECT_EQ(::posix_spawn(&pid_, BUSY, &files, nullptr, words, environ), 0);
    ::posix_spawn_file_actions_destroy(&files);
    ::close(input[0]);
    ::close(output[1]);
    input_ = input[1];
    char byte = 0;
    EXPECT_EQ(::read(output[0], &byte, 1), 1);
    ::close(output[0]);
  }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
  ~Busy() {
    ::close(input_);
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  /// Return the processes of a rank whose program this is.
  ListProcesses processes() const {
    return [pid = pid_] {
      std::vector<ProfiledProcess> found;
      const char state = thread_state(pid, pid);
      if (state != '?' && state != 'Z') found.push_back({pid, ""});
      return found;
    };
  }
  /// End its input, and return whether it ends as it should.
  bool ends_well() {
    ::close(std::exchange(input_, -1));
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 7;
  }

 private:
  pid_t pid_ = 0;
  int input_ = -1;
};

int refuse(perf_event_attr&, pid_t) {
  errno = EACCES;
  return -1;
}

/// Return the part of the samples in whose stacks a function is.
double part_of(const Profile& profile, std::string_view function) {
  std::uint64_t with = 0;
  for (const ProfileStack& stack : profile.stacks) {
    const bool found = std::any_of(stack.frames.begin(), stack.frames.end(), [&](std::uint32_t at) {
      return profile.frames[at].function.starts_with(function);
    });
    if (found) with += stack.samples;
  }
  const std::uint64_t all = samples_of(profile);
  return all == 0 ? 0 : static_cast<double>(with) / static_cast<double>(all);
}

Profile profile_of(const Busy& busy, ProfileKind kind, Duration time,
                   PerfOpen open = open_perf_event) {
  const auto profile = take_profile(
      {.kind = kind, .time = time, .processes = busy.processes(), .perf_open = std::move(open)});
  EXPECT_TRUE(profile) << profile.error().describe();
  return profile ? *profile : Profile{};
}

Duration cpu_time_of(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return {};
  return seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

/// Return whether this machine lets us use perf events at all.
bool has_perf() {
  Busy busy("wait");
  return profile_of(busy, ProfileKind::Cpu, milliseconds{1}).facts.engine == "perf_event";
}

TEST(TakeProfile, ABusyFunctionHasMostSamples) {
  Busy busy("burn");

  const Profile profile = profile_of(busy, ProfileKind::Cpu, seconds{1});

  EXPECT_GT(part_of(profile, "training::burn()"), 0.9) << folded_stacks(profile);
  EXPECT_GT(part_of(profile, "main"), 0.9) << folded_stacks(profile);
  EXPECT_GT(part_of(profile, "thread lib_profile_bus"), 0.9) << folded_stacks(profile);
  ASSERT_FALSE(hot_functions(profile, 1).empty());
  EXPECT_THAT(hot_functions(profile, 1)[0].name,
              AnyOf(HasSubstr("burn_a_while"), HasSubstr("fetch_add")));
  EXPECT_GT(profile.facts.cpu_time, Duration{0});
  EXPECT_THAT(profile.facts.notes, Not(Contains(HasSubstr("has no samples"))));
  EXPECT_THAT(profile.facts.executable, HasSubstr("lib_profile_busy"));
  EXPECT_TRUE(busy.ends_well());
}

TEST(TakeProfile, WherePerfIsRefusedStopsGiveTheSame) {
  Busy busy("burn");

  const Profile profile = profile_of(busy, ProfileKind::Cpu, seconds{1}, refuse);

  EXPECT_EQ(profile.facts.engine, "ptrace");
  EXPECT_GT(part_of(profile, "training::burn()"), 0.9) << folded_stacks(profile);
  EXPECT_THAT(profile.facts.notes, Contains(HasSubstr("perf_event_open is refused here")));
  EXPECT_THAT(profile.facts.notes, Contains(HasSubstr("kernel.perf_event_paranoid is ")));
  EXPECT_TRUE(busy.ends_well());
}

TEST(TakeProfile, OfAnIdleProcessSaysSo) {
  Busy busy("wait");
  for (const PerfOpen& open : {PerfOpen(open_perf_event), PerfOpen(refuse)}) {
    const Profile profile = profile_of(busy, ProfileKind::Cpu, milliseconds{500}, open);
    EXPECT_LT(samples_of(profile), 3u) << folded_stacks(profile);
    EXPECT_LT(profile.facts.cpu_time, milliseconds{100});
    EXPECT_THAT(describe_profile(profile, {}), HasSubstr("--kind wall"));
  }
  EXPECT_TRUE(busy.ends_well());
}

TEST(TakeProfile, OfTheWallShowsWhereThreadsWait) {
  Busy busy("wait");

  const Profile profile = profile_of(busy, ProfileKind::Wall, seconds{1});

  EXPECT_EQ(profile.facts.engine, "ptrace");
  EXPECT_NEAR(part_of(profile, "training::wait_for_data()"), 0.5, 0.1) << folded_stacks(profile);
  EXPECT_NEAR(part_of(profile, "thread watcher"), 0.5, 0.1) << folded_stacks(profile);
  // A thread that does not run is stopped once.
  EXPECT_THAT(profile.facts.notes, Contains(HasSubstr("threads were stopped ")));
  EXPECT_TRUE(busy.ends_well());
}

TEST(TakeProfile, ManyThreadsThatWaitAreNotStoppedAgainAndAgain) {
  Busy busy("crowd");

  const Profile profile = profile_of(busy, ProfileKind::Wall, seconds{2});

  std::uint64_t stops = 0;
  for (const std::string& note : profile.facts.notes)
    (void)std::sscanf(note.c_str(), "threads were stopped %lu times", &stops);
  EXPECT_GT(stops, 0u);
  EXPECT_LE(stops, 3 * 400u);  // each once, one each 50 ms, and some again after a full batch
  EXPECT_TRUE(busy.ends_well());
}

TEST(TakeProfile, AThreadThatADebuggerHoldsIsCountedAllTheSame) {
  Busy busy("burn");
  ASSERT_EQ(::ptrace(PTRACE_SEIZE, busy.pid(), nullptr, nullptr), 0);

  const Profile profile = profile_of(busy, ProfileKind::Wall, seconds{1});

  EXPECT_NEAR(part_of(profile, "[no stack]"), 0.5, 0.1) << folded_stacks(profile);
  EXPECT_THAT(profile.facts.notes, Contains(HasSubstr("some threads could not be stopped")));
}

TEST(TakeProfile, TimeInTheKernelThatMayNotBeSampledIsTold) {
  if (!has_perf()) GTEST_SKIP() << "perf_event_open is refused here";
  Busy busy("burn");
  const PerfOpen without_kernel = [](perf_event_attr& attributes, pid_t tid) {
    if (attributes.exclude_kernel == 1) return open_perf_event(attributes, tid);
    errno = EACCES;
    return -1;
  };
  const Profile profile = profile_of(busy, ProfileKind::Cpu, milliseconds{300}, without_kernel);
  EXPECT_EQ(profile.facts.engine, "perf_event");
  EXPECT_THAT(profile.facts.notes, Contains(HasSubstr("time in the kernel is not sampled")));
}

TEST(TakeProfile, TimeInTheKernelBelongsToTheFunctionThatCalls) {
  perf_event_attr in_the_kernel{};
  in_the_kernel.size = sizeof in_the_kernel;
  in_the_kernel.type = PERF_TYPE_SOFTWARE;
  in_the_kernel.config = PERF_COUNT_SW_CPU_CLOCK;
  const FileDescriptor allowed(open_perf_event(in_the_kernel, 0));
  if (allowed.get() < 0) GTEST_SKIP() << "perf_event_open shows no time in the kernel here";
  Busy busy("read");
  const Profile profile = profile_of(busy, ProfileKind::Cpu, seconds{1});
  EXPECT_THAT(profile.facts.notes, Not(Contains(HasSubstr("in the kernel"))));
  EXPECT_GT(part_of(profile, "training::read_much()"), 0.9) << folded_stacks(profile);
  EXPECT_GT(static_cast<std::int64_t>(samples_of(profile)) * profile.facts.period,
            profile.facts.cpu_time * 8 / 10);
}

TEST(TakeProfile, TimeOfThreadsThatLiveBrieflyIsTold) {
  for (const PerfOpen& open : {PerfOpen(open_perf_event), PerfOpen(refuse)}) {
    Busy busy("brief");
    const Profile profile = profile_of(busy, ProfileKind::Cpu, seconds{2}, open);
    EXPECT_THAT(profile.facts.notes,
                Contains(MatchesRegex("[0-9]+ % of the CPU time has no samples: most likely, it "
                                      "was used (in the kernel, or )?by threads that lived for "
                                      "less than 200 ms")));
    EXPECT_TRUE(busy.ends_well());
  }
}

TEST(TakeProfile, TimeWithoutSamplesIsToldIfItIsMuch) {
  const auto note_of = [](Duration cpu, std::uint64_t samples, bool with_kernel) {
    ProfileFacts facts{.period = milliseconds{10}, .cpu_time = cpu};
    note_unsampled_time(facts, samples, with_kernel);
    return facts.notes.empty() ? "" : facts.notes[0];
  };
  EXPECT_EQ(note_of(seconds{1}, 50, true),
            "50 % of the CPU time has no samples: most likely, it was used by threads that lived "
            "for less than 200 ms");
  EXPECT_EQ(note_of(seconds{1}, 0, false),
            "100 % of the CPU time has no samples: most likely, it was used in the kernel, or by "
            "threads that lived for less than 200 ms");
  EXPECT_EQ(note_of(seconds{10}, 810, true), "");  // it is less than a fifth
  EXPECT_EQ(note_of(milliseconds{190}, 0, true), "");
  EXPECT_EQ(note_of(seconds{1}, 200, true), "");
  EXPECT_EQ(note_of({}, 0, true), "");
}

TEST(TakeProfile, AProgramMayCallAnother) {
  for (const PerfOpen& open : {PerfOpen(open_perf_event), PerfOpen(refuse)}) {
    Busy busy("exec");
    const auto profile = take_profile({.time = seconds{30},
                                       .processes =
                                           [&] {  // until it has been the other one for long enough
                                             return cpu_time_of(busy.pid()) < seconds{1}
                                                        ? busy.processes()()
                                                        : std::vector<ProfiledProcess>{};
                                           },
                                       .perf_open = open});
    ASSERT_TRUE(profile) << profile.error().describe();
    EXPECT_GT(part_of(*profile, "training::burn()"), 0.4) << folded_stacks(*profile);
    EXPECT_GT(part_of(*profile, "main"), 0.7) << folded_stacks(*profile);
    EXPECT_TRUE(busy.ends_well());
  }
}

// As root it has a higher priority than all programs.
TEST(TakeProfile, WithVeryManyThreadsHalfOfTheTimeIsRest) {
  Busy busy("crowd");
  SamplingOrder order{.time = seconds{2}, .perf_open = refuse};
  order.processes = [&] {  // each thread's folder in /proc shows all threads
    std::vector<ProfiledProcess> found;
    for (const pid_t tid : threads_of(busy.pid()).value())
      if (found.size() < 20) found.push_back({tid, ""});
    return found;
  };
  const std::clock_t before = std::clock();
  const auto profile = take_profile(order);
  const double used = static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC;
  ASSERT_TRUE(profile) << profile.error().describe();
  EXPECT_LT(used, 1.5);
}

TEST(TakeProfile, ThreadsMayComeAndGo) {
  Busy busy("churn");
  for (const ProfileKind kind : {ProfileKind::Cpu, ProfileKind::Wall}) {
    const Profile profile = profile_of(busy, kind, seconds{1});
    EXPECT_GT(samples_of(profile), 0u);
    EXPECT_GT(part_of(profile, "thread "), 0.99) << folded_stacks(profile);
  }
  EXPECT_TRUE(busy.ends_well());
}

TEST(TakeProfile, AWorkerThatIsKilledMeanwhileHasAProfile) {
  for (const PerfOpen& open : {PerfOpen(open_perf_event), PerfOpen(refuse)}) {
    Busy busy("burn");
    std::thread killer([&] {
      EXPECT_TRUE(fakes::eventually([&] { return cpu_time_of(busy.pid()) > milliseconds{700}; }));
      ::kill(busy.pid(), SIGKILL);
    });
    const Profile profile = profile_of(busy, ProfileKind::Cpu, seconds{30}, open);
    killer.join();
    EXPECT_LT(profile.facts.lasted, seconds{20});
    EXPECT_THAT(profile.facts.notes, Contains("the worker ended meanwhile"));
    EXPECT_GT(part_of(profile, "training::burn()"), 0.5) << folded_stacks(profile);
  }
}

TEST(TakeProfile, TheEventsOfEndedThreadsAreClosed) {
  if (!has_perf()) GTEST_SKIP() << "perf_event_open is refused here";
  Busy busy("churn");
  const auto cpu = [] { return std::clock(); };
  const std::clock_t before = cpu();
  (void)profile_of(busy, ProfileKind::Cpu, seconds{2});
  // An event of an ended thread is always ready: whoever keeps it polls without a pause.
  EXPECT_LT(static_cast<double>(cpu() - before) / CLOCKS_PER_SEC, 1.0);
}

TEST(TakeProfile, ErrorsSayWhy) {
  Busy busy("wait");
  const SamplingOrder order{.time = milliseconds{100}, .processes = busy.processes()};
  const auto missing = take_profile(order, {.unwinder = "/nonexistent/program"});
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().describe(), HasSubstr("starting '/nonexistent/program'"));
  EXPECT_TRUE(busy.ends_well());
  const auto ended = take_profile({.time = seconds{1}, .processes = busy.processes()});
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().message, "the worker has ended");
}

TEST(TakeProfile, AnUnwinderThatFailsIsTold) {
  Busy busy("burn");
  const auto profile = take_profile({.time = milliseconds{500}, .processes = busy.processes()},
                                    {.unwinder = "/bin/false"});
  ASSERT_TRUE(profile) << profile.error().describe();
  EXPECT_EQ(samples_of(*profile), 0u);
  EXPECT_GT(profile->facts.lost, 5u);
  EXPECT_GT(profile->facts.cpu_time, Duration{0});
  EXPECT_THAT(profile->facts.notes, Contains(HasSubstr("some samples have no stacks: ")));
}

}  // namespace
}  // namespace train
