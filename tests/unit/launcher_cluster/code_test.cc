#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "launcher/cluster/code/code_keeper.h"
#include "launcher/cluster/code/code_listing.h"
#include "launcher/cluster/code/code_shipment.h"
#include "lib/storage/code_manifest.h"
#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const auto never = [] { return false; };

class Code : public testing::Test {
 protected:
  Code() {
    spec.working_dir = project;
    spec.command = {"/bin/true"};
    spec.run_config.storage_path = folder.path() + "/runs";
    spec.ship.on = true;
    fs::create_directories(project);
  }
  void write(const std::string& path, const std::string& text = "text", mode_t mode = 0644) const {
    fs::create_directories(fs::path(project + "/" + path).parent_path());
    std::ofstream(project + "/" + path) << text;
    ::chmod((project + "/" + path).c_str(), mode);
  }
  std::vector<std::string> listed() const {
    const auto listing = list_code(spec);
    if (!listing) return {"error: " + listing.error().message};
    std::vector<std::string> paths;
    for (const ListedFile& file : listing->files) paths.push_back(file.path);
    return paths;
  }
  Error refusal() const {
    const auto listing = list_code(spec);
    return listing ? Error{} : listing.error();
  }

  TempFolder folder;
  const std::string project = folder.path() + "/project";
  JobSpec spec;
};

TEST_F(Code, IsAllThatIsNotIgnored) {
  write("train.py");
  write(".env");
  write("src/a.py");
  write("src/a.pyc");
  write("build/vit");
  write("src/keep.pyc");
  write(".git/config");
  write("src/.git", "gitdir: elsewhere");
  write(".gitignore", "*.pyc\n/build/\n");
  write("src/.gitignore", "!keep.pyc\n");

  EXPECT_THAT(listed(), ElementsAre(".env", ".gitignore", "src/.gitignore", "src/a.py",
                                    "src/keep.pyc", "train.py"));

  write(".trainignore", "src/\n.*\n");
  EXPECT_THAT(listed(), ElementsAre("build/vit", "train.py"));
}

TEST_F(Code, IsWhatPatternsMatch) {
  write("train.py");
  write("src/a.py");
  write("src/deep/a.txt");
  write("data/a.bin");
  write("build/vit");
  write(".gitignore", "build\n");
  spec.ship.files = {"src/", "*.py", "/build/*", "!deep", "trian.py", "!none"};

  EXPECT_THAT(listed(), ElementsAre("build/vit", "src/a.py", "train.py"));
  EXPECT_THAT(list_code(spec)->warnings,
              ElementsAre("ship: nothing in '" + project + "' matches 'trian.py'"));
}

TEST_F(Code, HasTheProgramWhateverIsIgnored) {
  write("build/vit", "program", 0755);
  write("build/vit.o");
  write("tools/setup.sh");
  write("train.py");
  write(".gitignore", "build\ntools\n");
  write("conf/a.yaml");
  write(".gitignore", "build\ntools\nconf\n");
  write("results/run-1/model.bin");
  write(".git/hooks/x");
  spec.run_config.storage_path = project + "/results";
  spec.command = {"./build/vit",
                  ":8000",
                  "--init=results/run-1/model.bin",
                  ".git/hooks/x",
                  "--config=conf/a.yaml",
                  "--out",
                  "/tmp/x",
                  "build/nothing",
                  "../project/train.py"};
  spec.per_node_setup.command = {"sh", "tools/setup.sh"};

  EXPECT_THAT(listed(),
              ElementsAre(".gitignore", "build/vit", "conf/a.yaml", "tools/setup.sh", "train.py"));

  spec.command = {project + "/build/vit"};
  const auto listing = list_code(spec);
  ASSERT_TRUE(listing);
  EXPECT_THAT(listing->warnings, ElementsAre(HasSubstr("'./build/vit' names what is shipped")));
}

TEST_F(Code, HasNoResultsOfRuns) {
  spec.run_config.storage_path = project + "/results";
  write("train.py");
  write("results/run-1/metrics.jsonl");
  for (const char* name : {"events.jsonl", "spec.resolved.yaml", "code/0123/train.py"})
    write("older/run-2/" + std::string(name));
  write("older/sweep-1/sweep.jsonl");
  write("older/sweep-1/spec.resolved.yaml");
  write("older/sweep-1/0/metrics.jsonl");
  write("older/events.jsonl");

  EXPECT_THAT(listed(), ElementsAre("older/events.jsonl", "train.py"));
  spec.ship.files = {"older", "*.py"};
  EXPECT_THAT(listed(), ElementsAre("older/events.jsonl", "train.py"));
}

TEST_F(Code, FollowsLinksToFilesAndTellsOfOthers) {
  write("train.py");
  std::ofstream(folder.path() + "/shared.py") << "shared";
  fs::create_symlink(folder.path() + "/shared.py", project + "/shared.py");
  fs::create_symlink("nowhere", project + "/broken");
  fs::create_symlink("loop", project + "/loop");
  fs::create_directory_symlink("/usr", project + "/data");
  ::mkfifo((project + "/fifo").c_str(), 0600);

  fs::create_symlink(folder.path() + "/shared.py", project + "/.gitignore");  // as git: no rules

  const auto listing = list_code(spec);
  ASSERT_TRUE(listing) << listing.error().message;
  ASSERT_EQ(listing->files.size(), 3u);
  EXPECT_EQ(listing->files[1].path, "shared.py");
  EXPECT_EQ(listing->files[1].bytes, 6u);
  EXPECT_THAT(listing->warnings, ElementsAre("links to folders are not shipped: 'data'"));
}

TEST_F(Code, MayLieBesideFilesThatAreCalledAsThoseOfARun) {
  for (const char* name : {"events.jsonl", "spec.resolved.yaml", "train.py"}) write(name);
  write("data/sweep.jsonl");

  EXPECT_THAT(listed(),
              ElementsAre("data/sweep.jsonl", "events.jsonl", "spec.resolved.yaml", "train.py"));
}

TEST_F(Code, HasTheFilesThatOtherCommandsAndLinesName) {
  for (const char* name : {"bin/train", "bin/check.py", "bin/hook.sh", "bin/loop.py", "bin/other"})
    write(name);
  write("README");
  write(".gitignore", "bin\n");
  spec.command = {"/bin/sh", "-c", "cd .;A=1 'bin/train' --x && exec python3 bin/loop.py:main"};
  spec.run_config.checkpoint_config.validation.command = {"python3", "bin/check.py"};
  spec.backend_config.on_start = {"/bin/sh", "-c", "(bin/hook.sh)"};

  EXPECT_THAT(listed(), ElementsAre(".gitignore", "README", "bin/check.py", "bin/hook.sh",
                                    "bin/loop.py", "bin/train"));
}

TEST_F(Code, HasNoLargeDataThatACommandNames) {
  write("train.py");
  write("out/model.pt");
  write(".gitignore", "out\n");
  fs::resize_file(project + "/out/model.pt", (64u << 20) + 1);
  spec.command = {"python3", "train.py", "--out=out/model.pt"};

  EXPECT_THAT(listed(), ElementsAre(".gitignore", "train.py"));
  EXPECT_THAT(list_code(spec)->warnings,
              ElementsAre(HasSubstr("'out/model.pt' is not shipped, although")));
  spec.command = {"out/model.pt"};
  EXPECT_THAT(listed(), ElementsAre(".gitignore", "out/model.pt", "train.py"));
}

TEST_F(Code, IsNotLookedForWhereNoneIsWanted) {
  std::string deep = "data";
  for (int i = 0; i < 40; ++i) deep += "/d";
  write("train.py");
  write(deep + "/a.py");
  spec.ship.files = {"*.py"};
  EXPECT_THAT(refusal().message, HasSubstr("more than 32 folders deep"));
  EXPECT_THAT(refusal().hint, HasSubstr("begins with '!'"));

  spec.ship.files.emplace_back("!data");
  EXPECT_THAT(listed(), ElementsAre("train.py"));
}

TEST_F(Code, OfTooManyBytesNamesTheLargestFolders) {
  write("data/a.bin", std::string(3000, 'a'));
  write("data/b.bin", std::string(3000, 'a'));
  write("src/a.py", std::string(1000, 'a'));
  spec.ship.bytes_max = 7000;
  EXPECT_THAT(listed(), ElementsAre("data/a.bin", "data/b.bin", "src/a.py"));

  spec.ship.bytes_max = 6999;
  const Error error = refusal();
  EXPECT_EQ(error.code, Errc::InvalidSpec);
  EXPECT_THAT(error.message, HasSubstr("more than the 6.8 KiB that ship.max allows; the largest: "
                                       "data (5.9 KiB), src (1000 B)"));
}

TEST_F(Code, OfNothingIsRefused) {
  write("a.py");
  spec.ship.files = {"*.cc"};
  EXPECT_THAT(refusal().message, HasSubstr("no file of '" + project + "'"));
}

TEST_F(Code, WithANameThatBreaksATerminalIsRefused) {
  write("a\x1b[2J.py");
  EXPECT_EQ(refusal().code, Errc::InvalidSpec);
  EXPECT_EQ(refusal().message.find('\x1b'), std::string::npos);
}

TEST_F(Code, IsKeptInTheRunsFolderAsItWas) {
  const RunFolder run(folder.path() + "/runs/job");
  write("src/a.py", "first");
  write("vit", "program", 0755);
  const auto first = keep_code(run, project, *list_code(spec), never);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->files, 2u);
  EXPECT_EQ(first->bytes, 12u);
  EXPECT_EQ(*kept_code(run), first->folder);

  write("src/a.py", "second");
  std::ifstream kept(first->folder + "/src/a.py");
  std::string text;
  kept >> text;
  EXPECT_EQ(text, "first");

  std::ifstream table(first->folder + "/" + std::string(kCodeManifestName));
  const auto files = parse_code(std::string(std::istreambuf_iterator<char>(table), {}));
  ASSERT_TRUE(files) << files.error().message;
  ASSERT_EQ(files->size(), 2u);
  EXPECT_FALSE((*files)[0].executable);
  EXPECT_TRUE((*files)[1].executable);

  // The same code again is the same folder; other code takes its place.
  write("src/a.py", "first");
  EXPECT_EQ(keep_code(run, project, *list_code(spec), never)->folder, first->folder);
  write("src/a.py", "second");
  std::ofstream(run.code() + "/mine") << "not ours";
  const auto second = keep_code(run, project, *list_code(spec), never);
  EXPECT_NE(second->folder, first->folder);
  EXPECT_FALSE(fs::exists(first->folder));
  EXPECT_TRUE(fs::exists(run.code() + "/mine"));
  EXPECT_EQ(*kept_code(run), second->folder);
}

TEST_F(Code, ThatVanishesMeanwhileIsLeftOut) {
  const RunFolder run(folder.path() + "/runs/job");
  write("a.py");
  write("b.py");
  const auto listing = list_code(spec);
  fs::remove(project + "/a.py");

  const auto kept = keep_code(run, project, *listing, never);

  ASSERT_TRUE(kept) << kept.error().message;
  EXPECT_EQ(kept->files, 1u);
}

TEST_F(Code, ThatWasDamagedInTheRunsFolderIsMadeAnew) {
  const RunFolder run(folder.path() + "/runs/job");
  write("a.py", "first");
  const auto first = keep_code(run, project, *list_code(spec), never);
  ASSERT_TRUE(first);
  std::ofstream(first->folder + "/a.py") << "other";
  fs::create_directory(run.code() + "/.new-1");  // of a launcher that was killed

  const auto second = keep_code(run, project, *list_code(spec), never);

  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->folder, first->folder);
  std::ifstream kept(second->folder + "/a.py");
  std::string text;
  kept >> text;
  EXPECT_EQ(text, "first");
  EXPECT_FALSE(fs::exists(run.code() + "/.new-1"));

  std::ofstream(first->folder + "/" + std::string(kCodeManifestName)) << "damaged";
  EXPECT_EQ(kept_code(run).error().code, Errc::NotFound);
}

TEST_F(Code, IsNotKeptWhereALinkLeads) {
  const RunFolder run(folder.path() + "/runs/job");
  write("a.py");
  fs::create_directories(run.path());
  fs::create_directory_symlink(project, run.code());

  EXPECT_EQ(keep_code(run, project, *list_code(spec), never).error().code, Errc::Permission);
  EXPECT_THAT(listed(), ElementsAre("a.py"));
}

TEST_F(Code, ThatIsNotWantedAnyMoreLeavesNothing) {
  const RunFolder run(folder.path() + "/runs/job");
  write("a.py");
  write("b.py");
  const CodeListing listing = *list_code(spec);
  EXPECT_EQ(list_code(spec, [] { return true; }).error().code, Errc::Cancelled);

  int asked = 0;
  const auto kept = keep_code(run, project, listing, [&] { return ++asked > 1; });

  EXPECT_EQ(kept.error().code, Errc::Cancelled);
  EXPECT_TRUE(fs::is_empty(run.code()));
}

TEST_F(Code, OfARestartedLauncherStaysWhatItWas) {
  const RunFolder run(folder.path() + "/runs/job");
  write("a.py", "first");
  CodeShipment begun(spec, run, /*restarted=*/false);
  ASSERT_TRUE(begun.make(never));
  write("a.py", "second");

  CodeShipment restarted(spec, run, /*restarted=*/true);
  ASSERT_TRUE(restarted.make(never));
  EXPECT_EQ(restarted.made()->folder, begun.made()->folder);

  CodeShipment resumed(spec, run, /*restarted=*/false);
  ASSERT_TRUE(resumed.make(never));
  EXPECT_NE(resumed.made()->folder, begun.made()->folder);

  fs::remove_all(project);  // as on another machine
  CodeShipment elsewhere(spec, run, /*restarted=*/false);
  ASSERT_TRUE(elsewhere.make(never));
  EXPECT_EQ(elsewhere.made()->folder, resumed.made()->folder);
  EXPECT_THAT(elsewhere.made()->warnings, ElementsAre(HasSubstr("is not here")));
}

}  // namespace
}  // namespace train
