// The commands of a run's setup, as real processes.
#include "launcher/cluster/run/run_setup.h"

#include <fmt/format.h>
#include <signal.h>

#include <boost/asio/io_context.hpp>

#include "launcher/cluster/run/child_program.h"
#include "tests/fakes/eventually.h"
#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

std::vector<std::string> shell(const std::string& line) { return {"/bin/sh", "-c", line}; }

class RunSetupTest : public testing::Test {
 protected:
  void begin(std::vector<std::vector<std::string>> commands) {
    RunSetup::Handlers handlers{.begins = [this](const std::string& text) { told_ = text; },
                                .succeeded = [this] { succeeded_ = true; },
                                .failed = [this](const SetupFailure& why) { failure_ = why; },
                                .last_failed = [this](const Error& why) { last_error_ = why; }};
    setup_.emplace(context_.get_executor(),
                   RunSetup::Order{.commands = std::move(commands),
                                   .folder = folder_.path(),
                                   .environment = {{"PATH", "/usr/bin:/bin"}, {"MINE", "x"}},
                                   .log = log_,
                                   .run_id = "1a2b",
                                   .last = last_},
                   std::move(handlers));
    setup_->begin();
  }
  void run(std::vector<std::vector<std::string>> commands) {
    begin(std::move(commands));
    setup_->wait();
    context_.restart();
    context_.poll();
  }
  std::string file(const std::string& name) const { return text_of(folder_.path() + "/" + name); }

  TempFolder folder_;
  const std::string log_ = folder_.path() + "/run/setup.log";
  boost::asio::io_context context_;
  std::optional<RunSetup> setup_;
  std::string told_;
  bool succeeded_ = false;
  std::optional<SetupFailure> failure_;
  RunSetup::Last last_;
  std::optional<Error> last_error_;
};

TEST_F(RunSetupTest, CommandsRunOneAfterTheOtherAndTheLogHasTheirOutput) {
  run({shell("echo first; echo $MINE > made"), {"sh", "-c", "cat made; echo second >&2"}});

  EXPECT_TRUE(succeeded_);
  EXPECT_FALSE(failure_);
  EXPECT_EQ(file("run/setup.log"),
            "[trainrun: setup: echo first; echo $MINE > made]\nfirst\n"
            "[trainrun: setup: sh -c cat made; echo second >&2]\nx\nsecond\n");
  EXPECT_EQ(told_, "setup: sh -c cat made; echo second >&2 (its output: " + log_ + ")");
}

TEST_F(RunSetupTest, WhatComesLastSeesWhatTheCommandsMade) {
  last_ = [this](const auto&) -> Result<Unit> {
    if (file("made") == "made\n") return Unit{};
    return Error{Errc::NotFound, "nothing is made"};
  };
  run({shell("echo made > made")});
  EXPECT_TRUE(succeeded_);

  succeeded_ = false;
  run({shell("rm made")});
  EXPECT_FALSE(succeeded_);
  EXPECT_FALSE(failure_);
  ASSERT_TRUE(last_error_);
  EXPECT_EQ(last_error_->message, "nothing is made");

  last_error_.reset();
  run({shell("exit 1")});
  EXPECT_TRUE(failure_);
  EXPECT_FALSE(last_error_);
}

TEST_F(RunSetupTest, TheFirstThatFailsIsTheLast) {
  run({shell("echo one; echo two; exit 3"), shell("echo > never")});

  EXPECT_FALSE(succeeded_);
  ASSERT_TRUE(failure_);
  EXPECT_EQ(failure_->cause, "setup: 'echo one; echo two; exit 3' exited with 3: two");
  EXPECT_EQ(failure_->lines, (std::vector<std::string>{"one", "two"}));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/never"));
}

TEST_F(RunSetupTest, AFailureSaysHow) {
  run({shell("kill -SEGV $$")});
  EXPECT_EQ(failure_->cause, "setup: 'kill -SEGV $$' was killed by SIGSEGV");
  run({{"./no_such_program", "--fast"}});
  EXPECT_EQ(failure_->cause,
            "setup: './no_such_program --fast' cannot be started: No such file or directory");
  run({{"no_such_program"}});
  EXPECT_EQ(failure_->cause,
            "setup: 'no_such_program' cannot be started: No such file or directory");
  std::ofstream(folder_.path() + "/plain") << "no program\n";
  run({{"./plain"}});
  EXPECT_EQ(failure_->cause, "setup: './plain' cannot be started: Permission denied");
}

TEST_F(RunSetupTest, OfAFloodTheLastLinesAreSaidInBoundedLength) {
  run(
      {shell("yes $(head -c 3000 /dev/zero | tr '\\0' x) | head -c 4000000; echo; echo; "
             "printf 'the \\033end\\377'; exit 1")});
  ASSERT_TRUE(failure_);
  EXPECT_LE(failure_->lines.size(), 20u);
  for (const std::string& line : failure_->lines) EXPECT_LE(line.size(), 1024u);
  EXPECT_TRUE(failure_->cause.ends_with(" exited with 1: the \033end\xEF\xBF\xBD"));
}

TEST_F(RunSetupTest, AStopIsAskedForAndThenForced) {
  begin(
      {shell("trap 'echo asked > asked; exit 0' TERM; echo up > up; "
             "while :; do sleep 0.05; done")});
  ASSERT_TRUE(fakes::eventually([&] { return file("up") == "up\n"; }));
  setup_->stop();
  setup_->wait();
  context_.poll();
  EXPECT_EQ(file("asked"), "asked\n");
  EXPECT_FALSE(succeeded_);
  EXPECT_FALSE(failure_);

  begin({shell("trap '' TERM; echo $$ > stubborn; while :; do sleep 0.05; done")});
  ASSERT_TRUE(fakes::eventually([&] { return file("stubborn").ends_with('\n'); }));
  setup_->stop();
  setup_->stop();
  setup_->wait();
  EXPECT_NE(::kill(std::stoi(file("stubborn")), 0), 0);
}

TEST_F(RunSetupTest, WhatComesLastIsToldThatItIsStopped) {
  last_ = [](const auto& stopped) -> Result<Unit> {
    EXPECT_TRUE(fakes::eventually([&] { return stopped(); }));
    return Error{Errc::Cancelled, "stopped"};
  };
  begin({});
  setup_->stop();
  setup_->wait();
  context_.poll();
  EXPECT_FALSE(succeeded_);
  EXPECT_FALSE(last_error_);
}

TEST_F(RunSetupTest, WhatTheCommandsOfAKilledLauncherHaveLeftIsEndedFirst) {
  const auto start = [](const std::string& run) {
    return *ChildProgram::start(
        {.argv = {"/bin/sleep", "1000"}, .environment = {{"A", "b"}, {"TRAINRUN_SETUP_OF", run}}});
  };
  ChildProgram ours = start("1a2b"), others = start("1a2b3");
  run({shell("echo $TRAINRUN_SETUP_OF > id")});

  EXPECT_TRUE(succeeded_);
  EXPECT_EQ(file("id"), "1a2b\n");
  EXPECT_EQ(end_text(ours.reap([](std::string_view) {})), "was killed by SIGKILL");
  EXPECT_FALSE(others.look([](std::string_view) {}));
  others.signal(SIGKILL);
  (void)others.reap([](std::string_view) {});
}

TEST_F(RunSetupTest, WhatACommandLeavesBehindIsKilled) {
  run({shell("sleep 1000 & echo $! > child")});
  EXPECT_TRUE(succeeded_);
  EXPECT_TRUE(fakes::eventually([&] {
    std::string state;  // it may be a zombie that nobody reaps
    std::ifstream stat(fmt::format("/proc/{}/stat", std::stoi(file("child"))));
    stat >> state >> state >> state;
    return state.empty() || state == "Z";
  }));
}

TEST(ShownCommand, IsOneLineOfBoundedLength) {
  EXPECT_EQ(shown_command({"./a", "b c"}), "./a b c");
  EXPECT_EQ(shown_command({"/bin/sh", "-c", "a\nb"}), "a b");
  EXPECT_LE(shown_command({std::string(100'000, 'x')}).size(), 200u);
}

}  // namespace
}  // namespace train
