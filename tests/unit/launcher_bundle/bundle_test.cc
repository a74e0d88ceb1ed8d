// Makes bundles of folders that a hostile worker has been in, and reads what is in the archive with
// tar(1).
#include "launcher/bundle/bundle.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "lib/base/text_file.h"

namespace train {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

class BundleTest : public testing::Test {
 protected:
  BundleTest() { fs::create_directories(run_); }
  ~BundleTest() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(run_ + "/" + name).parent_path());
    std::ofstream(run_ + "/" + name) << text;
  }
  BundleSummary make(std::uint64_t bytes_max = kBundleBytesDefault) {
    const std::string path = folder_ + "/report.tar.gz";
    fs::remove(path);
    const auto made =
        make_bundle(RunFolder(run_), {.path = path, .bytes_max = bytes_max, .build = "1.2.3"});
    EXPECT_TRUE(made.has_value()) << (made ? "" : made.error().describe());
    fs::remove_all(folder_ + "/report");
    const pid_t tar = ::fork();
    if (tar == 0) {
      ::execlp("tar", "tar", "-xzf", path.c_str(), "-C", folder_.c_str(), nullptr);
      ::_exit(127);
    }
    int status = -1;
    ::waitpid(tar, &status, 0);
    EXPECT_EQ(status, 0);
    return made ? *made : BundleSummary{};
  }
  std::string in(const std::string& name) const { return read_text(folder_ + "/report/" + name); }
  std::vector<std::string> files_with(const std::string& text) const {
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_ + "/report"))
      if (entry.is_regular_file() && read_text(entry.path()).find(text) != std::string::npos)
        found.push_back(entry.path());
    return found;
  }

  const std::string folder_ =
      fs::temp_directory_path().string() + "/bundle_test." + std::to_string(::getpid());
  const std::string run_ = folder_ + "/job";
};

TEST_F(BundleTest, HoldsTheTextsOfARunAndSaysWhatItLeavesOut) {
  write("run.json", "{\"run\":\"job\"}\n");
  write("attempts/000/ranks/0001/stdout.log", "hello\n");
  write("checkpoints/checkpoint_000001/.manifest.json", "{}\n");
  write("checkpoints/checkpoint_000001/model.pt", "weights");

  const BundleSummary made = make();

  EXPECT_EQ(made.files, 3u);
  EXPECT_EQ(made.shortened, 0u);
  EXPECT_EQ(made.left_out, 1u);
  EXPECT_EQ(in("run/run.json"), "{\"run\":\"job\"}\n");
  EXPECT_EQ(in("run/attempts/000/ranks/0001/stdout.log"), "hello\n");
  EXPECT_EQ(in("run/checkpoints/checkpoint_000001/.manifest.json"), "{}\n");
  EXPECT_THAT(
      in("MANIFEST.txt"),
      HasSubstr("\nLeft out:\n           7  checkpoints/checkpoint_000001/model.pt: data of "
                "a checkpoint\n"));
  EXPECT_THAT(in("machine.txt"), HasSubstr("trainrun: 1.2.3\n"));
  EXPECT_THAT(in("machine.txt"), HasSubstr("\nulimit core: "));
  EXPECT_THAT(in("machine.txt"), HasSubstr("\n/proc/sys/kernel/core_pattern: "));
}

TEST_F(BundleTest, HasNoSecretOfTheSpecInAnyByte) {
  write("spec.yaml",
        "env:\n"
        "  DB_PASSWORD: cnry\n"  // too short to be found elsewhere
        "  DOUBLE_TOKEN: \"can\\x61ry-escaped\"\n"
        "  FOLDED_SECRET: >\n"
        "    canary-folded-1\n"
        "    canary-folded-2\n"
        "  SERVICE_KEY: canary-service  # TOKEN: canary-comment\n"
        "train_loop_config: {lr: 0.5, store: {password: [cnryA, canary-b-list], user: me}, n: 1}\n"
        "# api_key=canary-old\n");
  write("attempts/000/ranks/0000/stdout.log",
        "logged in with canary-service\nMY_TOKEN=canary-assigned\n");
  write("attempts/000/canary-service.txt", "named after it\n");

  make();

  EXPECT_THAT(files_with("canary"), testing::IsEmpty()) << in("run/spec.yaml");
  EXPECT_THAT(files_with("cnry"), testing::IsEmpty()) << in("run/spec.yaml");
  EXPECT_FALSE(fs::exists(folder_ + "/report/run/attempts/000/canary-service.txt"));
  EXPECT_EQ(in("run/attempts/000/ranks/0000/stdout.log"),
            "logged in with <redacted:SERVICE_KEY>\nMY_TOKEN=<redacted:MY_TOKEN>\n");
  EXPECT_THAT(in("run/spec.yaml"), HasSubstr("\n  DB_PASSWORD: <redacted:DB_PASSWORD>\n"));
  EXPECT_THAT(in("run/spec.yaml"), HasSubstr("{lr: 0.5, store: {password: [<redacted:password>, "
                                             "<redacted:password>], user: me}, n: 1}\n"));
}

TEST_F(BundleTest, LeavesOutASpecThatIsNoYaml) {
  write("spec.yaml", "env: {PASSWORD: canary\n");

  const BundleSummary made = make();

  EXPECT_EQ(made.shortened, 1u);
  EXPECT_THAT(files_with("canary"), testing::IsEmpty());
  EXPECT_THAT(in("MANIFEST.txt"), HasSubstr("spec.yaml: left out: it cannot be read as a spec"));
}

TEST_F(BundleTest, HoldsNoPartOfASecretThatItsLimitCuts) {
  write("spec.yaml", "env: {A_TOKEN: canary-3f9a-canary-3f9a}\n");
  std::string log;
  for (int i = 0; i < 40'000; ++i) log += "x canary-3f9a-canary-3f9a\n";
  for (int shift = 0; shift < 26; ++shift) {
    write("attempts/000/ranks/0000/stdout.log",
          std::string(static_cast<std::size_t>(shift), ' ') + log);
    make(kBundleBytesMin);
    ASSERT_THAT(files_with("canary"), testing::IsEmpty()) << shift;
    ASSERT_THAT(files_with("9a"), Not(Contains(testing::EndsWith("stdout.log")))) << shift;
  }
  EXPECT_THAT(in("run/attempts/000/ranks/0000/stdout.log"),
              HasSubstr("x <redacted:A_TOKEN>\n\n[trainrun: 9"));
}

TEST_F(BundleTest, HoldsTheNewestSamplesInCompleteLines) {
  std::string lines;
  for (int i = 100'000; i < 200'000; ++i) lines += fmt::format("{{\"t\":{},\"rows\":\"0\"}}\n", i);
  write("samples.jsonl", lines);

  const BundleSummary made = make(kBundleBytesMin);

  EXPECT_EQ(made.shortened, 1u);
  const std::string text = in("run/samples.jsonl");
  const std::size_t missing = lines.size() - (text.size() - text.find('{'));
  EXPECT_TRUE(text.starts_with(fmt::format("\n[trainrun: {} bytes are left out here]\n", missing)));
  EXPECT_TRUE(lines.ends_with("}\n" + text.substr(text.find('{'))));
  EXPECT_THAT(
      in("MANIFEST.txt"),
      HasSubstr(fmt::format("samples.jsonl: its end; {} bytes before are left out", missing)));
}

TEST_F(BundleTest, FollowsNothingAndReadsNoDeviceOrPipe) {
  std::ofstream(folder_ + "/outside") << "canary\n";
  write("attempts/000/cause.json", "{}");
  fs::create_symlink(folder_ + "/outside", run_ + "/run.json");
  fs::create_symlink(folder_, run_ + "/attempts/001");
  ASSERT_EQ(::mkfifo((run_ + "/events.jsonl").c_str(), 0600), 0);
  fs::create_directory(run_ + "/exit.json");
  fs::create_symlink("/dev/zero", run_ + "/spec.yaml");

  const BundleSummary made = make();

  EXPECT_EQ(made.files, 1u);
  EXPECT_THAT(files_with("canary"), testing::IsEmpty());
  EXPECT_THAT(in("MANIFEST.txt"), HasSubstr("attempts/001: no regular file\n"));
  EXPECT_THAT(in("MANIFEST.txt"), HasSubstr("events.jsonl: no regular file\n"));
  EXPECT_THAT(in("MANIFEST.txt"), HasSubstr("run.json: no regular file\n"));
}

TEST_F(BundleTest, IsBoundedWhateverASizeSays) {
  write("run.json", "{\n");
  write("attempts/000/ranks/0000/stdout.log", "first\n");
  fs::resize_file(run_ + "/attempts/000/ranks/0000/stdout.log", 1ull << 42);
  fs::resize_file(run_ + "/run.json", 1ull << 42);

  const BundleSummary made = make(1 << 20);

  EXPECT_EQ(made.files, 2u);
  EXPECT_EQ(made.shortened, 2u);
  EXPECT_LT(fs::file_size(folder_ + "/report/run/attempts/000/ranks/0000/stdout.log"), 1u << 20);
}

TEST_F(BundleTest, OfAFolderWithNothingInItTellsOfTheMachine) {
  EXPECT_EQ(make().files, 0u);
  EXPECT_THAT(in("MANIFEST.txt"), HasSubstr("A bundle of the run " + run_));
  EXPECT_THAT(in("machine.txt"), HasSubstr("\nMemTotal: "));
}

}  // namespace
}  // namespace train
