#include "launcher/core/path_rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

namespace train {
namespace {

std::optional<bool> verdict(const std::string& lines, std::string_view path,
                            bool is_folder = false) {
  PathRules rules;
  rules.add_lines(lines);
  return rules.matches(path, is_folder);
}

TEST(PathRules, ANameMatchesAtAnyDepth) {
  EXPECT_EQ(verdict("*.o\n", "main.o"), true);
  EXPECT_EQ(verdict("*.o\n", "src/deep/main.o"), true);
  EXPECT_EQ(verdict("*.o\n", "main.cc"), std::nullopt);
  EXPECT_EQ(verdict("main\n", "main2"), std::nullopt);
}

TEST(PathRules, APathWithASlashBeginsAtTheFolder) {
  EXPECT_EQ(verdict("/build\n", "build"), true);
  EXPECT_EQ(verdict("/build\n", "src/build"), std::nullopt);
  EXPECT_EQ(verdict("src/gen\n", "src/gen"), true);
  EXPECT_EQ(verdict("src/gen\n", "a/src/gen"), std::nullopt);
  EXPECT_EQ(verdict("src/*.o\n", "src/deep/a.o"), std::nullopt);
}

TEST(PathRules, ASlashAtTheEndMeansFolders) {
  EXPECT_EQ(verdict("data/\n", "data", true), true);
  EXPECT_EQ(verdict("data/\n", "data", false), std::nullopt);
  EXPECT_EQ(verdict("data/\n", "a/data", true), true);
}

TEST(PathRules, TwoAsterisksAreAnyFolders) {
  EXPECT_EQ(verdict("**/log\n", "log"), true);
  EXPECT_EQ(verdict("**/log\n", "a/b/log"), true);
  EXPECT_EQ(verdict("a/**/z\n", "a/z"), true);
  EXPECT_EQ(verdict("a/**/z\n", "a/b/c/z"), true);
  EXPECT_EQ(verdict("a/**\n", "a/b"), true);
  EXPECT_EQ(verdict("a/**\n", "a", true), std::nullopt);
}

TEST(PathRules, TheLastLineThatMatchesDecides) {
  const std::string lines = "*.bin\n!keep.bin\n# !other.bin\n\n";
  EXPECT_EQ(verdict(lines, "other.bin"), true);
  EXPECT_EQ(verdict(lines, "keep.bin"), false);
  EXPECT_EQ(verdict("!keep.bin\n*.bin\n", "keep.bin"), true);
}

TEST(PathRules, ReadsLinesAsGitDoes) {
  EXPECT_EQ(verdict("\xef\xbb\xbf*.o\r\n", "a.o"), true);
  EXPECT_EQ(verdict("a.o  \n", "a.o"), true);
  EXPECT_EQ(verdict("a\\ \n", "a "), true);
  EXPECT_EQ(verdict("\\#a\n", "#a"), true);
  EXPECT_EQ(verdict("\\!a\n", "!a"), true);
  EXPECT_EQ(verdict("a", "a"), true);
  EXPECT_EQ(verdict("/\n!\n!/\n", "a"), std::nullopt);
}

TEST(PathRules, ManyAsterisksTakeNoTime) {
  std::string line, path;
  for (int i = 0; i < 60; ++i) line += "**/";
  for (int i = 0; i < 60; ++i) path += "a/";
  EXPECT_EQ(verdict(line + "z\n", path + "b"), std::nullopt);
}

// What git itself says of the same rules and paths.
class GitRules : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("git --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "NOT TESTED: needs git";
    std::string path = ::testing::TempDir() + "rules-XXXXXX";
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    folder = path;
    ASSERT_EQ(std::system(fmt::format("git init -q {}", path).c_str()), 0);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  /// Return those of the paths that git ignores.
  std::set<std::string> ignored(const std::string& lines, const std::set<std::string>& paths) {
    std::ofstream(folder / ".gitignore") << lines;
    std::ofstream(folder / "paths") << fmt::format("{}\n", fmt::join(paths, "\n"));
    const std::string command = fmt::format(
        "cd {} && git -c core.excludesFile=/dev/null check-ignore --no-index --stdin <paths",
        folder.string());
    FILE* pipe = ::popen(command.c_str(), "r");
    std::set<std::string> out;
    std::array<char, 256> line{};
    while (std::fgets(line.data(), line.size(), pipe) != nullptr) {
      std::string text = line.data();
      text.pop_back();
      out.insert(text);
    }
    ::pclose(pipe);
    return out;
  }

  std::filesystem::path folder;
};

TEST_F(GitRules, AreTheSame) {
  const std::vector<std::string> names{"a", "b", "ab", "a.o", "b.o"};
  const std::vector<std::string> parts{"a", "b", "*", "**", "?", "a*", "*.o", "[ab]", "[!a]", "ab"};
  std::set<std::string> paths;
  for (const std::string& x : names)
    for (const std::string& y : names) paths.insert({x, x + "1/" + y, x + "1/" + y + "2/a"});
  // git ignores all that lies in an ignored folder; the walk does not enter one.
  const auto is_ignored = [](const PathRules& rules, const std::string& path) {
    for (std::size_t slash = path.find('/'); slash != std::string::npos;
         slash = path.find('/', slash + 1))
      if (rules.matches(path.substr(0, slash), true).value_or(false)) return true;
    return rules.matches(path, false).value_or(false);
  };
  std::mt19937 random(7);
  const auto pick = [&](const auto& from) { return from[random() % from.size()]; };
  for (int round = 0; round < 60; ++round) {
    std::string lines;
    for (int i = 0; i < 4; ++i) {
      std::string line = random() % 4 == 0 ? "!" : "";
      if (random() % 4 == 0) line += "/";
      const int depth = 1 + static_cast<int>(random() % 3);
      for (int part = 0; part < depth; ++part)
        line += (part == 0 ? "" : "/") + pick(parts) + (random() % 3 == 0 ? "1" : "");
      if (random() % 4 == 0) line += "/";
      lines += line + "\n";
    }
    PathRules rules;
    rules.add_lines(lines);
    std::set<std::string> ours;
    for (const std::string& path : paths)
      if (is_ignored(rules, path)) ours.insert(path);
    EXPECT_EQ(ours, ignored(lines, paths)) << "round " << round << ":\n" << lines;
  }
}

}  // namespace
}  // namespace train
