// Programs of run_config.callbacks, as real processes.
#include "launcher/cluster/run/callback_programs.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <mutex>

#include "tests/fakes/eventually.h"
#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

std::vector<std::string> shell(const std::string& line) { return {"sh", "-c", line}; }

class CallbackProgramsTest : public testing::Test {
 protected:
  std::unique_ptr<CallbackPrograms> begin(std::vector<std::vector<std::string>> commands) {
    auto programs = std::make_unique<CallbackPrograms>(
        CallbackPrograms::Options{.commands = std::move(commands),
                                  .working_dir = folder_.path(),
                                  .environment = {{"PATH", "/usr/bin:/bin"}},
                                  .folder = RunFolder(folder_.path()),
                                  .say = [this](const std::string& text) {
                                    const std::lock_guard lock(mutex_);
                                    said_.push_back(text);
                                  }});
    programs->begin();
    return programs;
  }
  std::vector<std::string> said() {
    const std::lock_guard lock(mutex_);
    return said_;
  }
  std::string file(const std::string& name) const { return text_of(folder_.path() + "/" + name); }

  TempFolder folder_;
  std::mutex mutex_;
  std::vector<std::string> said_;
};

TEST_F(CallbackProgramsTest, AProgramIsToldWhereTheEventsAreAndWhenThereAreNoMore) {
  const auto command =
      shell("echo $TRAINRUN_EVENTS; echo $TRAINRUN_CALLBACK_STATE; cat; echo the end > ended");
  auto programs = begin({command});
  const std::string base = "callbacks/" + callback_id(command);
  EXPECT_TRUE(fakes::eventually([&] { return !file(base + ".log").empty(); }));
  EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/ended"));

  programs->finish();

  EXPECT_EQ(file("ended"), "the end\n");
  EXPECT_EQ(file(base + ".log"), folder_.path() + "/callbacks/events.jsonl\n" + folder_.path() +
                                     "/" + base + ".state\n");
  EXPECT_EQ(said(), std::vector<std::string>{});
}

TEST_F(CallbackProgramsTest, OneThatDiesIsWarnedOf) {
  const auto failing = shell("echo no server >&2; exit 3");
  auto programs = begin({failing, shell("exit 0"), {"./no_such_program"}, shell("kill -9 $$")});
  EXPECT_TRUE(fakes::eventually([&] { return said().size() == 4; }));
  programs->finish();

  auto all = said();
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all,
            (std::vector<std::string>{
                "the callback './no_such_program' cannot be started: No such file or "
                "directory",
                fmt::format("the callback 'sh -c echo no server >&2; exit 3' exited with 3; it "
                            "is told nothing more: no server (its output: "
                            "{}/callbacks/{}.log)",
                            folder_.path(), callback_id(failing)),
                "the callback 'sh -c exit 0' ended before the run; it is told nothing more",
                "the callback 'sh -c kill -9 $$' was killed by SIGKILL; it is told nothing "
                "more"}));
}

TEST_F(CallbackProgramsTest, WhatIsLeftIsKilledWithThisObject) {
  auto programs = begin({shell("trap '' TERM; echo $$ > pid; while :; do sleep 0.05; done")});
  ASSERT_TRUE(fakes::eventually([&] { return file("pid").ends_with('\n'); }));
  programs.reset();
  EXPECT_NE(::kill(std::stoi(file("pid")), 0), 0);
}

TEST(CallbackId, IsTheSameForTheSameWordsOnly) {
  EXPECT_EQ(callback_id({"a", "b"}), callback_id({"a", "b"}));
  EXPECT_NE(callback_id({"a", "b"}), callback_id({"ab"}));
  EXPECT_EQ(callback_id({}).size(), 16u);
}

}  // namespace
}  // namespace train
