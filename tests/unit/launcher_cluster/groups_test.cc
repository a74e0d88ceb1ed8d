// The parts of a run with replica groups that need no processes.
#include <gtest/gtest.h>

#include <boost/json/parse.hpp>
#include <filesystem>
#include <fstream>
#include <set>

#include "launcher/cluster/groups/group_command.h"
#include "launcher/cluster/groups/group_events.h"
#include "launcher/cluster/groups/groups_folder.h"
#include "launcher/cluster/groups/lighthouse_command.h"
#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

using Words = std::vector<std::string>;

GroupsOptions two_groups() {
  GroupsOptions options{.folder = "/runs/vit", .name = "vit", .spec = {}, .program = "train-run"};
  options.spec.backend_config.replica_groups = 2;
  options.output_words = {"--no-fold"};
  return options;
}

TEST(GroupCommand, MakesOneGroupOfTheRunsSpec) {
  EXPECT_EQ(group_command(two_groups(), GroupsFolder("/runs/vit"),
                          {.group = 1, .lighthouse = "http://127.0.0.1:5", .daemon = "/run/d"}),
            (Words{"train-run",
                   "run",
                   "/runs/vit/spec.resolved.yaml",
                   "--driver-fd",
                   "{FD}",
                   "--on-driver-exit",
                   "stop",
                   "--shared-daemon",
                   "/run/d",
                   "--set",
                   "env.TORCHFT_LIGHTHOUSE=\"http://127.0.0.1:5\"",
                   "--set",
                   "env.TORCHFT_QUORUM_RETRIES=\"10\"",
                   "--set",
                   "backend=torch",
                   "--set",
                   "backend_config.replica_groups=null",
                   "--set",
                   "backend_config.min_replicas=null",
                   "--set",
                   "backend_config.lighthouse=null",
                   "--set",
                   "sweep=null",
                   "--set",
                   "name=\"001\"",
                   "--set",
                   "run_config.storage_path=\"/runs/vit/groups\"",
                   "--set",
                   "env.REPLICA_GROUP_ID=\"1\"",
                   "--set",
                   "env.NUM_REPLICA_GROUPS=\"2\"",
                   "--set",
                   "run_config.failure_config.orphan_timeout=10s"}));
}

TEST(GroupCommand, ResumesAGroupAndTellsItOnlyOfALighthouseThatHasMoved) {
  const GroupsFolder folder("/runs/vit");
  GroupCall call{.group = 0, .resume = true, .lighthouse = "http://127.0.0.1:5"};
  const Words there{"train-run",   "resume",   "/runs/vit/groups/000",
                    "--driver-fd", "{FD}",     "--on-driver-exit",
                    "stop",        "--no-fold"};
  EXPECT_EQ(group_command(two_groups(), folder, call), there);

  call.moved = true;
  Words moved = there;
  moved.insert(moved.end(), {"--set", "env.TORCHFT_LIGHTHOUSE=\"http://127.0.0.1:5\""});
  EXPECT_EQ(group_command(two_groups(), folder, call), moved);
}

TEST(GroupCommand, LeavesALighthouseOfTheUsersToTheSpec) {
  for (const std::string& word :
       group_command(two_groups(), GroupsFolder("/runs/vit"), {.group = 1}))
    EXPECT_EQ(word.find("TORCHFT_"), std::string::npos);
}

TEST(GroupCommand, LeavesTheUsersNumberOfRetriesAsItIs) {
  GroupsOptions options = two_groups();
  options.environment["TORCHFT_QUORUM_RETRIES"] = "3";
  for (const std::string& word :
       group_command(options, GroupsFolder("/runs/vit"), {.group = 1, .lighthouse = "http://a:1"}))
    EXPECT_EQ(word.find("TORCHFT_QUORUM_RETRIES"), std::string::npos);
}

std::optional<GroupEvent> told(const char* text) {
  return group_event(boost::json::parse(text).as_object());
}

TEST(GroupEvents, SayWhoseFaultAFailureWas) {
  EXPECT_EQ(told(R"({"event": "attempt", "attempt": 0})"), GroupEvent(AttemptBegan{}));
  EXPECT_EQ(told(R"({"event": "exception", "cause": "rank 0 exited with 7",
                     "ranks": [{"rank": 0, "kind": "exited", "exit_code": 7}]})"),
            GroupEvent(AttemptFailed{"rank 0 exited with 7", true, 7}));
  EXPECT_EQ(told(R"({"event": "exception", "cause": "c",
                     "ranks": [{"rank": 0, "kind": "exited", "exit_code": 99}]})"),
            GroupEvent(AttemptFailed{"c", true, 1}))
      << "only 3 to 63 are the user's";
  EXPECT_EQ(told(R"({"event": "exception", "cause": "c",
                     "ranks": [{"rank": 0, "kind": "killed", "exit_code": null, "signal": 9}]})"),
            GroupEvent(AttemptFailed{"c", false, 1}));
  EXPECT_EQ(told(R"({"event": "exception", "ranks": []})"), GroupEvent(AttemptFailed{}));
  EXPECT_EQ(told(R"({"event": "end", "code": 1, "cause": "c"})"), GroupEvent(GroupRunEnded{"c"}));
  EXPECT_EQ(told(R"({"event": "logged", "bytes": 3})"), std::nullopt);
}

TEST(GroupsFolder, IsFoundByPathOrNameAndItsGroupsByNumber) {
  const TempFolder temp;
  const GroupsFolder folder(temp.path() + "/vit");
  std::filesystem::create_directories(folder.groups());
  EXPECT_EQ(find_groups(folder.path(), ""), std::nullopt);
  ASSERT_TRUE(write_note(folder, {.groups = 2, .min_groups = 1, .lighthouse = "http://a:1"}));

  EXPECT_EQ(find_groups(folder.path() + "/", ""), folder.path());
  EXPECT_EQ(find_groups("vit", temp.path()), folder.path());
  EXPECT_EQ(find_groups("other", temp.path()), std::nullopt);
  EXPECT_EQ(find_group("vit", temp.path()), folder.path() + "/groups/000");
  EXPECT_EQ(find_group("vit/12", temp.path()), folder.path() + "/groups/012");
  for (const char* none : {"vit/", "vit/-1", "vit/x", "vit/1x", "1", "other/1"})
    EXPECT_EQ(find_group(none, temp.path()), none == std::string("vit/")
                                                 ? std::optional(folder.path() + "/groups/000")
                                                 : std::nullopt)
        << none;
  EXPECT_TRUE(holds_groups(folder.groups()));
  EXPECT_FALSE(holds_groups(temp.path()));

  const auto note = read_note(folder);
  ASSERT_TRUE(note.has_value());
  EXPECT_EQ(note->groups, 2);
  EXPECT_EQ(note->min_groups, 1);
  EXPECT_EQ(note->lighthouse, "http://a:1");
  std::ofstream(folder.groups_json()) << "{\"replica_groups\": 1000000}";
  EXPECT_FALSE(read_note(folder).has_value());
}

class LighthouseCommand : public testing::Test {
 protected:
  Result<Words> command() {
    return lighthouse_command(spec_, environment_,
                              [&](const std::string& path) { return files_.contains(path); });
  }
  std::string error() {
    const auto found = command();
    return found ? "" : found.error().message + " | " + found.error().hint;
  }
  JobSpec spec_ = [] {
    JobSpec spec;
    spec.command = {"python3", "train.py"};
    spec.working_dir = "/job";
    return spec;
  }();
  std::map<std::string, std::string> environment_{{"PATH", "/venv/bin:/usr/bin"}};
  std::set<std::string> files_{"/venv/bin/python3", "/usr/bin/torchft_lighthouse"};
};

TEST_F(LighthouseCommand, IsTheOneBesideThePythonOfTheCommand) {
  files_.insert("/venv/bin/torchft_lighthouse");
  environment_["PATH"] = "/usr/bin:/venv/bin";
  EXPECT_EQ(*command(), Words{"/venv/bin/torchft_lighthouse"});

  spec_.command = {"env/bin/python3.11", "train.py"};
  files_.insert({"/job/env/bin/python3.11", "/job/env/bin/torchft_lighthouse"});
  EXPECT_EQ(*command(), Words{"/job/env/bin/torchft_lighthouse"});
}

TEST_F(LighthouseCommand, IsElseTheOneOnPath) {
  EXPECT_EQ(*command(), Words{"/usr/bin/torchft_lighthouse"});
  spec_.command = {"/bin/sh", "-c", "python3 train.py"};
  EXPECT_EQ(*command(), Words{"/usr/bin/torchft_lighthouse"});
}

TEST_F(LighthouseCommand, IsWhatTheSpecNames) {
  spec_.backend_config.lighthouse = {"torchft_lighthouse", "--quorum_tick_ms", "10"};
  EXPECT_EQ(*command(), (Words{"/usr/bin/torchft_lighthouse", "--quorum_tick_ms", "10"}));
  files_.insert("/venv/bin/torchft_lighthouse");
  EXPECT_EQ(*command(), (Words{"/venv/bin/torchft_lighthouse", "--quorum_tick_ms", "10"}));
  spec_.backend_config.lighthouse = {"./mine"};
  EXPECT_EQ(error(),
            "backend_config.lighthouse names ./mine, which is no program here | write its path");
  files_.insert("/job/./mine");
  EXPECT_EQ(*command(), Words{"/job/./mine"});
}

TEST_F(LighthouseCommand, ThatIsNotInstalledSaysWhereToInstallIt) {
  files_.erase("/usr/bin/torchft_lighthouse");
  EXPECT_EQ(error(),
            "torchft's lighthouse is not installed: torchft_lighthouse is neither beside "
            "/venv/bin/python3 nor on PATH | /venv/bin/python3 -m pip install torchft, or name it "
            "in backend_config.lighthouse");
  spec_.command = {"./train"};
  EXPECT_EQ(error(),
            "torchft's lighthouse is not installed: torchft_lighthouse is not on PATH | pip "
            "install torchft, or name it in backend_config.lighthouse");
}

TEST(AddressForNodes, IsThatFromWhichTheFirstIsReached) {
  EXPECT_EQ(*address_for_nodes({}), "127.0.0.1");
  EXPECT_EQ(*address_for_nodes({"127.0.0.1:7070", "10.0.0.1:7070"}), "127.0.0.1");
  const auto nobody = address_for_nodes({"no-such-host.invalid:7070"});
  ASSERT_FALSE(nobody);
  EXPECT_EQ(nobody.error().message.find("at which address no-such-host.invalid:7070 reaches"), 0u)
      << nobody.error().message;
}

}  // namespace
}  // namespace train
