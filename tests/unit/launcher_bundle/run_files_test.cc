#include "launcher/bundle/run_files.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace train {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

class RunFilesTest : public testing::Test {
 protected:
  RunFilesTest() { fs::create_directories(folder_); }
  ~RunFilesTest() override { fs::remove_all(folder_); }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(folder_ + "/" + name).parent_path());
    std::ofstream(folder_ + "/" + name) << text;
  }
  const std::string folder_ =
      fs::temp_directory_path().string() + "/run_files_test." + std::to_string(::getpid());
};

std::vector<std::string> paths_of(const RunFiles& found) {
  std::vector<std::string> paths;
  for (const BundleCandidate& file : found.files) paths.push_back(file.path);
  return paths;
}

TEST_F(RunFilesTest, ListsRegularFilesAndNamesWhatIsNone) {
  write("a", "12345");
  write("in/b", "1");
  write("out/c", "1");
  ASSERT_EQ(::symlink("/etc/passwd", (folder_ + "/link").c_str()), 0);
  ASSERT_EQ(::symlink("/etc", (folder_ + "/in/folder").c_str()), 0);
  ASSERT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0600), 0);

  const RunFiles found =
      list_run_files(folder_, [](std::string_view path) { return path.starts_with("in"); });

  EXPECT_THAT(paths_of(found), UnorderedElementsAre("a", "in/b"));
  EXPECT_EQ(found.files[0].bytes, 5u);
  EXPECT_THAT(found.notes, UnorderedElementsAre("in/folder: no regular file",
                                                "link: no regular file", "pipe: no regular file"));
}

TEST_F(RunFilesTest, ReadsAPartAndNothingBehindALink) {
  write("a", "0123456789");
  ASSERT_EQ(::symlink(fs::temp_directory_path().c_str(), (folder_ + "/up").c_str()), 0);

  EXPECT_EQ(read_run_file(folder_, "a", 3, 4).text, "3456");
  EXPECT_EQ(read_run_file(folder_, "a", 8, 100).text, "89");
  EXPECT_EQ(read_run_file(folder_, "a", 8, 100).problem, "");
  const ReadPart behind =
      read_run_file(folder_, "up/" + fs::path(folder_).filename().string() + "/a", 0, 4);
  EXPECT_EQ(behind.text, "");
  EXPECT_THAT(behind.problem, HasSubstr("contains a link"));
  EXPECT_THAT(read_run_file(folder_, "../a", 0, 4).problem, HasSubstr("a bad name"));
}

TEST(CutText, EndsAndBeginsAtALine) {
  EXPECT_EQ(without_cut_end("one\ntwo\nthr"), "one\ntwo\n");
  EXPECT_EQ(without_cut_begin("ne\ntwo\nthree"), "two\nthree");
  EXPECT_EQ(without_cut_end("one"), "");
  EXPECT_EQ(without_cut_begin("one"), "");
}

TEST(CutText, LosesAsMuchOfAnEndlessLineAsASecretMayHave) {
  const std::string endless = "x\n" + std::string(200'000, 'x');
  EXPECT_EQ(without_cut_end(endless).size(), 200'002u - 65'536u);
  const std::string begun = std::string(200'000, 'x') + "\nx";
  EXPECT_EQ(without_cut_begin(begun).size(), 200'002u - 65'536u);
}

}  // namespace
}  // namespace train
