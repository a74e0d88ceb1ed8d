// Profiles of Python programs, by py-spy: here a script beside a busy program in the guise of
// Python.
#include "lib/profile/sampling/python_profile.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "lib/profile/report/profile_formats.h"
#include "lib/profile/sampling/take_profile.h"
#include "lib/stacks/proc_files.h"
#include "tests/fakes/eventually.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string folded(std::string_view raw, pid_t program = 7) {
  ProfileBuilder builder;
  add_raw_stacks(raw, program, builder);
  return folded_stacks(std::move(builder).take());
}

TEST(RawStacks, HaveThreadsAsOtherProfiles) {
  EXPECT_EQ(folded("process 7:\"python a.py\";thread (7): MainThread;<module> (a.py:9);"
                   "burn (a.py:3) 12\n"
                   "process 7:\"python a.py\";thread (8): loader;read (b.py:1) 2\n"
                   "process 7:\"python a.py\";thread (9): loader;read (b.py:1) 3\n"
                   "process 8:\"python -c import a; b\";thread (8);read (b.py:1) 1\n"),
            "process python -c import a: b;thread (8);read (b.py:1) 1\n"
            "thread MainThread;<module> (a.py:9);burn (a.py:3) 12\n"
            "thread loader;read (b.py:1) 5\n");
}

TEST(RawStacks, MayBeAnything) {
  EXPECT_EQ(folded("py-spy> 1.2s behind\n"
                   "burn (a.py:3) many\n"
                   "\n"
                   " \n"
                   "huge 99999999999999999999999\n"
                   "negative -3\n"
                   "nothing 0\n"
                   "process 7:\";thread ( 1\n"
                   "process 7:\"x;y 2\n"
                   "process x:\"x\";thread (1;y 3\n"
                   "odd) (;; 4\n"
                   "burn (a.py:3) 12"),
            "burn (a.py:3) 12\n"
            "odd) (;[unknown] 4\n"
            "process 7:\";thread ( 1\n"
            "process 7:\"x;y 2\n"
            "process x:\"x\";thread (1;y 3\n");
  EXPECT_EQ(folded(""), "");
  EXPECT_EQ(folded(std::string(1u << 20, 'x')), "");
  std::string deep = "f";
  for (int i = 0; i < 5000; ++i) deep += ";f";
  EXPECT_EQ(folded(deep + " 1").size(), 2 * kProfileDepthMax + 2);
}

/// A busy process whose program is called python3, with this py-spy beside it.
class Python {
 public:
  explicit Python(const std::string& script) {
    std::string name = fs::temp_directory_path() / "trainrun-python-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    program_ = folder_ + "/python3";
    fs::copy_file(BUSY, program_);
    std::ofstream(folder_ + "/py-spy") << "#!/bin/sh\nfor last; do :; done\n" << script << "\n";
    fs::permissions(folder_ + "/py-spy", fs::perms(0755));
    int input[2], output[2];
    EXPECT_EQ(::pipe2(input, O_CLOEXEC) | ::pipe2(output, O_CLOEXEC), 0);
    posix_spawn_file_actions_t files;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_adddup2(&files, input[0], 0);
    ::posix_spawn_file_actions_adddup2(&files, output[1], 1);
    std::string mode = "burn";
    char* const words[] = {program_.data(), mode.data(), nullptr};
    EXPECT_EQ(::posix_spawn(&pid_, program_.c_str(), &files, nullptr, words, environ), 0);
    ::posix_spawn_file_actions_destroy(&files);
    ::close(input[0]);
    ::close(output[1]);
    input_.reset(input[1]);
    char byte = 0;
    EXPECT_EQ(::read(output[0], &byte, 1), 1);
    ::close(output[0]);
  }
  Python(const Python&) = delete;
  Python& operator=(const Python&) = delete;
  ~Python() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    fs::remove_all(folder_);
  }

  pid_t pid() const { return pid_; }
  std::string said() const { return read_proc_text(folder_ + "/said", 4096); }
  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  SamplingOrder order(ProfileKind kind, Duration time) const {
    return {.kind = kind, .time = time, .processes = [pid = pid_] {
              return std::vector<ProfiledProcess>{{.pid = pid}};
            }};
  }

 private:
  std::string folder_, program_;
  FileDescriptor input_{};
  pid_t pid_ = 0;
};

constexpr const char* kRecords =
    R"(echo "$*" >"$(dirname "$0")/said"
echo 'process '$last':"python a.py";thread ('$last'): MainThread;burn (a.py:3) 99' >/proc/self/fd/3)";

TEST(PythonProfile, IsThatOfPySpy) {
  const Python python(kRecords);

  const auto cpu = take_profile(python.order(ProfileKind::Cpu, milliseconds{500}));
  ASSERT_TRUE(cpu) << cpu.error().describe();
  EXPECT_EQ(folded_stacks(*cpu), "thread MainThread;burn (a.py:3) 99\n");
  EXPECT_EQ(cpu->facts.engine, "py-spy");
  EXPECT_EQ(cpu->facts.pid, python.pid());
  EXPECT_EQ(cpu->facts.executable, python.file("python3"));
  EXPECT_THAT(cpu->facts.notes, IsEmpty());
  EXPECT_EQ(python.said(),
            fmt::format("record --nonblocking --threads --subprocesses --function --format raw "
                        "--rate 99 --duration 1 --output /proc/self/fd/3 --pid {}\n",
                        python.pid()));

  const auto wall = take_profile(python.order(ProfileKind::Wall, seconds{2}));
  ASSERT_TRUE(wall) << wall.error().describe();
  EXPECT_EQ(wall->facts.kind, ProfileKind::Wall);
  EXPECT_THAT(python.said(), HasSubstr("--duration 2 --output /proc/self/fd/3 --idle --pid"));
}

TEST(PythonProfile, SaysHowMuchTimeIsMissing) {
  const Python python("sleep 1.5; echo 'thread (1): x;f (a.py:1) 3' >/proc/self/fd/3");
  const auto profile = take_profile(python.order(ProfileKind::Cpu, seconds{1}));
  ASSERT_TRUE(profile) << profile.error().describe();
  EXPECT_GT(profile->facts.cpu_time, milliseconds{200});
  EXPECT_THAT(profile->facts.notes,
              ElementsAre(HasSubstr("% of the CPU time is missing: threads that run no Python")));
  const auto wall = take_profile(python.order(ProfileKind::Wall, seconds{1}));
  EXPECT_THAT(wall->facts.notes, IsEmpty());
}

TEST(PythonProfile, IsNativeWithANoteIfPySpyFails) {
  const Python python("echo 'Permission Denied' >&2; exit 1");
  const auto profile = take_profile(python.order(ProfileKind::Wall, milliseconds{300}));
  ASSERT_TRUE(profile) << profile.error().describe();
  EXPECT_EQ(profile->facts.engine, "ptrace");
  EXPECT_THAT(profile->facts.notes,
              testing::Contains("without the functions of Python: '" + python.file("py-spy") +
                                "' ended with 1: Permission Denied"));
  EXPECT_THAT(folded_stacks(*profile), Not(IsEmpty()));
}

TEST(PythonProfile, OfAPySpyThatWritesForEverIsNative) {
  const Python python("yes >/proc/self/fd/3");
  const auto profile = take_profile(python.order(ProfileKind::Wall, milliseconds{300}));
  ASSERT_TRUE(profile) << profile.error().describe();
  EXPECT_THAT(profile->facts.notes,
              testing::Contains(HasSubstr("wrote more than 32768 KiB and was killed")));
}

}  // namespace
}  // namespace train
