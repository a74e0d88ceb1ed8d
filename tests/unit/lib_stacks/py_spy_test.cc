// A py-spy that is anybody's program: it may hang, write for ever, or fail. The process that it
// looks at is a target in the guise of Python, with the py-spy of its own folder.
#include "lib/stacks/py_spy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "lib/stacks/python_dumps.h"
#include "lib/stacks/run_program.h"
#include "tests/unit/lib_stacks/target.h"

namespace train::stacks_test {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A folder with a program that looks like Python; and with a py-spy, a script.
class Installed {
 public:
  explicit Installed(const std::string& script = "") {
    std::string name = fs::temp_directory_path() / "trainrun-py-spy-XXXXXX";
    folder_ = ::mkdtemp(name.data());
    fs::permissions(folder_, fs::perms(0755));
    fs::copy_file(TARGET, python());
    if (!script.empty()) write(path("py-spy"), script);
  }
  Installed(const Installed&) = delete;
  Installed& operator=(const Installed&) = delete;
  ~Installed() { fs::remove_all(folder_); }

  static void write(const fs::path& file, const std::string& script) {
    std::ofstream(file) << "#!/bin/sh\nfor last; do :; done\n" << script;
    fs::permissions(file, fs::perms(0755));
  }
  fs::path path(const std::string& name) const { return fs::path(folder_) / name; }
  std::string python() const { return path("python3.11"); }

 private:
  std::string folder_;
};

/// Sets a variable of this process, and with it of targets, for a moment.
class Variable {
 public:
  Variable(const char* name, const std::string& value)
      : name_(name), old_(::getenv(name) == nullptr ? "" : ::getenv(name)) {
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { ::setenv(name_, old_.c_str(), 1); }

 private:
  const char* name_;
  std::string old_;
};

constexpr const char* kAnswers =
    R"(echo '[{"os_thread_id":'$last',"frames":[{"name":"load","filename":"/w/data.py","line":7}]}]')";

TEST(PySpy, AddsPythonsFramesToTheStacks) {
  const Installed here(kAnswers);
  Target target({"read"}, here.python());
  ASSERT_TRUE(target.reaches("read"));

  const ProcessStacks stacks = stacks_of(target);

  const StackFrame* load = frame_named(stacks.threads.at(0), "load");
  ASSERT_NE(load, nullptr) << functions_of(stacks.threads[0]);
  EXPECT_EQ(*load,
            (StackFrame{.function = "load", .file = "/w/data.py", .line = 7, .python = true}));
  EXPECT_NE(frame_named(stacks.threads[0], "__GI___libc_read"), nullptr)
      << functions_of(stacks.threads[0]);
  EXPECT_THAT(stacks.notes, IsEmpty());
  EXPECT_TRUE(target.ends_well());
}

TEST(PySpy, GetsItsArgumentsAndNoEnvironment) {
  const Installed here("echo \"$* $(env | grep -c -v -e ^PWD= -e ^_= -e ^SHLVL=)\"; exit 0");
  Target target({"read"}, here.python());
  const auto said =
      ask_py_spy({.pid = target.pid(), .arguments = {"dump", "a b"}, .bytes_max = 100}, soon());
  ASSERT_TRUE(said && *said);
  EXPECT_EQ(**said, fmt::format("dump a b --pid {} 0\n", target.pid()));
}

TEST(PySpy, MayWriteToAFile) {
  const Installed here("echo noise; echo noise >&2; echo stacks >/proc/self/fd/3");
  Target target({"read"}, here.python());
  const auto said = ask_py_spy({.pid = target.pid(), .to_third = true, .bytes_max = 100}, soon());
  ASSERT_TRUE(said && *said);
  EXPECT_EQ(**said, "stacks\n");
}

TEST(PySpy, ThatHangsIsKilledWithWhatItHasStarted) {
  const Installed here;
  Installed::write(here.path("py-spy"), "sleep 600 & echo $! >" + here.path("pid").string() +
                                            "; trap '' TERM INT; sleep 600");
  Target target({"read"}, here.python());

  const auto said = ask_py_spy({.pid = target.pid(), .bytes_max = 100},
                               std::chrono::steady_clock::now() + seconds{2});

  ASSERT_FALSE(said);
  EXPECT_THAT(said.error().message, HasSubstr("/py-spy' did not end in time and was killed"));
  pid_t started = 0;
  std::ifstream(here.path("pid")) >> started;
  ASSERT_GT(started, 0);
  EXPECT_TRUE(fakes::eventually([&] {
    return thread_state(started, started) == '?' || thread_state(started, started) == 'Z';
  }));
}

TEST(PySpy, ThatWritesForEverIsKilled) {
  for (const char* script : {"yes", "yes & yes", "yes & exit 0"}) {
    const Installed here(script);
    Target target({"read"}, here.python());
    const auto said = ask_py_spy({.pid = target.pid(), .bytes_max = 8u << 20}, soon());
    if (said) continue;  // the last one may end before its child has written so much
    EXPECT_THAT(said.error().message, HasSubstr("wrote more than 8192 KiB and was killed"));
  }
  const Installed here("yes >&2");
  Target target({"read"}, here.python());
  const auto errors = ask_py_spy({.pid = target.pid(), .bytes_max = 100},
                                 std::chrono::steady_clock::now() + seconds{1});
  EXPECT_THAT(errors.error().message, HasSubstr("did not end in time and was killed: y; y; "));
  EXPECT_LT(errors.error().message.size(), 1000u);
}

TEST(PySpy, ThatFailsSaysWhyInTheNotes) {
  const Installed here(
      "printf 'Error: no\\n\\nCaused by:\\n    0: Permission denied (os error 13)\\n' >&2; exit 3");
  Target target({"read"}, here.python());
  ASSERT_TRUE(target.reaches("read"));
  const ProcessStacks stacks = stacks_of(target);
  EXPECT_THAT(
      stacks.notes,
      ElementsAre("no Python frames: '" + here.path("py-spy").string() +
                  "' ended with 3: Error: no; Caused by: 0: Permission denied (os error 13)"));
  EXPECT_NE(frame_named(stacks.threads.at(0), "__GI___libc_read"), nullptr);

  Installed::write(here.path("py-spy"), "echo '[{]'");
  EXPECT_THAT(stacks_of(target).notes,
              ElementsAre("no Python frames: py-spy's output cannot be read"));
  EXPECT_TRUE(target.ends_well());
}

TEST(PySpy, IsNamedIfItIsMissingAndNotMissedByOthers) {
  const Installed here;
  const Variable path("PATH", "/nonexistent");
  Target target({"read"}, here.python());
  Target native({"read"});

  EXPECT_THAT(stacks_of(target).notes,
              ElementsAre("no Python frames: py-spy is not installed "
                          "(pip install py-spy in the worker's environment)"));
  EXPECT_THAT(stacks_of(native).notes, IsEmpty());
}

TEST(PySpy, IsLookedForInTheProcesssEnvironmentThenInOurs) {
  const Installed here, venv, path;
  fs::create_directory(venv.path("bin"));
  const std::string beside = here.path("py-spy"), in_venv = venv.path("bin/py-spy"),
                    in_path = path.path("py-spy");
  for (const std::string& file : {beside, in_venv, in_path}) Installed::write(file, "");
  const Variable with_venv("VIRTUAL_ENV", venv.path("").parent_path());
  {
    const Variable with_path("PATH", "relative:" + path.path("").parent_path().string());
    Target target({"read"}, here.python());
    EXPECT_EQ(find_py_spy(target.pid()), beside);
    fs::remove(beside);
    EXPECT_EQ(find_py_spy(target.pid()), in_venv);
    fs::permissions(in_venv, fs::perms(0757));  // everybody may write it
    EXPECT_EQ(find_py_spy(target.pid()), in_path);
    fs::remove(in_path);
    fs::create_directory(in_path);
    EXPECT_EQ(find_py_spy(target.pid()), "");
    fs::remove(in_path);
  }
  Target target({"read"}, here.python());
  Installed::write(in_path, "");
  const Variable ours("PATH", path.path("").parent_path());
  EXPECT_EQ(find_py_spy(target.pid()), in_path);
}

TEST(PySpy, OfAnotherUsersProcessIsNotItsChoice) {
  if (::geteuid() != 0) GTEST_SKIP() << "running a process as another user needs root";
  const Installed here("touch /should-not-be");
  const Variable path("PATH", "/nonexistent");
  Target target({"--reuid", "65534", "--clear-groups", "--", here.python(), "read"},
                "/usr/bin/setpriv");
  ASSERT_TRUE(fakes::eventually([&] { return executable_of(target.pid()) == here.python(); }));
  EXPECT_TRUE(runs_python(target.pid()));
  EXPECT_EQ(find_py_spy(target.pid()), "");
}

TEST(PySpy, AsksAboutManyProcessesAFewAtATime) {
  const Installed here(kAnswers);
  std::vector<std::unique_ptr<Target>> targets;
  std::vector<pid_t> pids;
  for (std::size_t i = 0; i < 3 * kPythonDumpsAtATime; ++i) {
    targets.push_back(std::make_unique<Target>(std::vector<std::string>{"read"}, here.python()));
    pids.push_back(targets.back()->pid());
  }
  std::vector<ProcessStacks> stacks;
  for (const pid_t pid : pids) stacks.push_back({.pid = pid, .threads = {{.facts = {.tid = pid}}}});
  PythonDumps(pids, soon()).add_to(stacks);
  for (const ProcessStacks& one : stacks) EXPECT_EQ(one.threads[0].frames.size(), 1u);
}

TEST(PySpy, HasNoTimeIfNoneIsLeft) {
  const Installed here(kAnswers);
  Target target({"read"}, here.python());
  std::vector<ProcessStacks> stacks{{.pid = target.pid(), .executable = here.python()}};
  PythonDumps({target.pid()}, std::chrono::steady_clock::now()).add_to(stacks);
  EXPECT_THAT(stacks[0].notes, ElementsAre("no Python frames: no time was left for py-spy"));
}

}  // namespace
}  // namespace train::stacks_test
