// SECURITY.md, S10: 400 names that may lead out of a folder: of runs, checkpoints and their files,
// and in peers' requests. Each is refused or stays below the folder, whatever links exist.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "lib/storage/manifest.h"
#include "lib/storage/posix_file_system.h"
#include "lib/storage/run_folder.h"
#include "lib/transfer/open_beneath.h"

namespace train {
namespace {

namespace fs = std::filesystem;

std::set<std::string> corpus() {
  const std::vector<std::string> ups{"..",
                                     "../",
                                     "..\\",
                                     "..;/",
                                     "%2e%2e/",
                                     "%2e%2e%2f",
                                     "..%2f",
                                     "..%5c",
                                     "%252e%2e/",
                                     "..%c0%af",
                                     "\xc0\xae\xc0\xae/",
                                     "..\xc0\xaf",
                                     "..\xe0\x80\xaf",
                                     "....//",
                                     "..././",
                                     ".../",
                                     "./../",
                                     "a/../../",
                                     "a/b/../../../",
                                     "out/",
                                     "out/../",
                                     "in/../../",
                                     "\uff0e\uff0e/",
                                     "\u2025/",
                                     "..\u2215",
                                     "..\u2044",
                                     " ../",
                                     "../ ",
                                     "..\t/",
                                     "..\n/",
                                     std::string("..\0/", 4),
                                     "\\..\\",
                                     "file:///",
                                     "//",
                                     "/",
                                     "\\\\host\\share\\",
                                     "C:\\",
                                     "C:/",
                                     "~/",
                                     "~root/",
                                     "$HOME/",
                                     "${HOME}/",
                                     "`pwd`/",
                                     "-",
                                     "--",
                                     "/proc/self/root/",
                                     "/proc/self/cwd/../",
                                     "/dev/fd/0/../"};
  const std::vector<std::string> ends{
      "secret",         "etc/passwd",       "file", "", ".", "..", "base/file",
      ".manifest.json", "checkpoint_000012"};
  std::set<std::string> names{"",
                              ".",
                              "file",
                              "a/b/file",
                              "in/b/file",
                              "link",
                              "abs/passwd",
                              "out",
                              "a",
                              "a/",
                              "a//b/file",
                              "./file",
                              "file/",
                              "file/.",
                              ".hidden",
                              "a/.hidden",
                              "con",
                              "nul",
                              "run-1",
                              "run_2.x",
                              "9",
                              "A",
                              "file\n",
                              std::string("file\0", 5),
                              std::string("file\0.txt", 9),
                              "f\x7fx",
                              "a\u202egpj",
                              "a\u009b",
                              "\xff",
                              "\xed\xa0\x80",
                              "run name",
                              "r\u00fcn",
                              std::string(128, 'a'),
                              std::string(129, 'a'),
                              std::string(255, 'a'),
                              std::string(256, 'a'),
                              std::string(5000, 'a'),
                              "fifo",
                              "a/b"};
  for (const std::string& up : ups)
    for (const std::string& end : ends) names.insert(up + end);
  for (int depth = 1; depth <= 40; ++depth) {
    std::string deep;
    for (int i = 0; i < depth; ++i) deep += depth % 2 == 0 ? "../" : "a/../";
    names.insert(deep + "secret");
  }
  return names;
}

/// top/{secret, base/{file, .hidden, fifo, a/b/file, out -> .., abs -> /etc, in -> a, link -> …}}
class Names : public testing::Test {
 protected:
  Names() {
    char name[] = "/tmp/names.XXXXXX";
    top_ = ::mkdtemp(name);
    fs::create_directories(base() + "/a/b");
    for (const char* file : {"/secret", "/base/file", "/base/.hidden", "/base/a/b/file"})
      std::ofstream(top_ + file) << "text";
    fs::create_symlink("..", base() + "/out");
    fs::create_symlink("/etc", base() + "/abs");
    fs::create_symlink("a", base() + "/in");
    fs::create_symlink("../secret", base() + "/link");
    EXPECT_EQ(::mkfifo((base() + "/fifo").c_str(), 0600), 0);
  }
  ~Names() override { fs::remove_all(top_); }
  std::string base() const { return top_ + "/base"; }
  std::set<std::string> entries(const std::string& folder) const {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder)) all.insert(entry.path().filename());
    return all;
  }

  std::string top_;
};

TEST_F(Names, OpenOnlyWhatIsBelow) {
  ASSERT_GE(corpus().size(), 400u);
  std::set<std::string> opened;
  for (const std::string& name : corpus()) {
    const auto file = open_beneath(base(), name);
    if (!file) continue;
    opened.insert(name);
    EXPECT_TRUE(fs::read_symlink("/proc/self/fd/" + std::to_string(file->get()))
                    .string()
                    .starts_with(base() + "/"))
        << testing::PrintToString(name);
  }

  EXPECT_EQ(opened, (std::set<std::string>{"file", "a/b/file", ".hidden"}));
}

TEST_F(Names, OfFilesOfACheckpointStayBelowIt) {
  for (const std::string& name : corpus()) {
    if (!check_file_path(name)) continue;
    const fs::path below = fs::path("/run/c") / name;
    EXPECT_EQ(below.lexically_normal(), below) << testing::PrintToString(name);
    EXPECT_TRUE(below.string().starts_with("/run/c/")) << testing::PrintToString(name);
    EXPECT_EQ(name.find_first_of(std::string("\0\n\x1b\x7f", 4)), std::string::npos);
  }
}

TEST_F(Names, OfRunsAreThoseOfTheirRuleAndMakeOneFolder) {
  const std::regex rule("[A-Za-z0-9][A-Za-z0-9._-]{0,127}");
  PosixFileSystem files;
  const std::string storage = top_ + "/storage";
  std::set<std::string> made;
  for (const std::string& name : corpus()) {
    const bool fits = std::regex_match(name, rule);
    EXPECT_EQ(check_run_name(name).has_value(), fits) << testing::PrintToString(name);
    const auto folder = create_run_folder(files, storage, name);
    EXPECT_EQ(folder.has_value(), fits) << testing::PrintToString(name);
    if (folder) made.insert(name);
  }

  EXPECT_EQ(entries(storage), made);
  EXPECT_EQ(entries(top_), (std::set<std::string>{"secret", "base", "storage"}));
}

TEST_F(Names, OfCheckpointsAreReadOnlyAsTheyAreWritten) {
  for (const std::string& name : corpus()) {
    if (const auto number = parse_checkpoint_name(name)) {
      EXPECT_EQ(checkpoint_name(*number), name) << testing::PrintToString(name);
    }
  }
}

}  // namespace
}  // namespace train
