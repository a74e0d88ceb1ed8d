// The file of events that callbacks read.
#include "launcher/cluster/run/event_file.h"

#include <sys/stat.h>

#include <algorithm>

#include "tests/unit/launcher_cluster/temp_folder.h"

namespace train {
namespace {

class EventFileTest : public testing::Test {
 protected:
  std::unique_ptr<EventFile> open() {
    auto opened = EventFile::open(path_, [this](const std::string& why) { said_ = why; });
    EXPECT_TRUE(opened) << opened.error().describe();
    return opened ? std::move(*opened) : nullptr;
  }
  void write(const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
    std::ofstream(path_) << text;
  }
  TempFolder folder_;
  const std::string path_ = folder_.path() + "/callbacks/events.jsonl";
  std::string said_;
};

TEST_F(EventFileTest, HasTheLinesInOrderOverSeveralLaunchers) {
  for (const char* launcher : {"a", "b"}) {
    auto file = open();
    file->add(std::string(launcher) + "1\n", false);
    file->add(std::string(launcher) + "2\n", false);
    file->finish();
  }
  EXPECT_EQ(text_of(path_), "a1\na2\nb1\nb2\n");
  EXPECT_EQ(said_, "");
}

TEST_F(EventFileTest, TheNewestOfLinesThatReplaceEachOtherIsThere) {
  auto file = open();
  file->add("begin\n", false);
  for (int i = 0; i < 10'000; ++i) file->add("logged " + std::to_string(i) + "\n", true);
  file->add("end\n", false);
  file->finish();

  const std::string text = text_of(path_);
  EXPECT_TRUE(text.starts_with("begin\nlogged ")) << text;
  EXPECT_TRUE(text.ends_with("\nlogged 9999\nend\n")) << text;
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 1000);
}

TEST_F(EventFileTest, WhatALauncherThatDiedLeftOfALineIsCutOff) {
  const std::string long_line(200'000, 'x');
  for (const auto& [before, whole] : std::vector<std::pair<std::string, std::string>>{
           {"", ""},
           {"torn", ""},
           {"a\n", "a\n"},
           {"a\nb\ntorn", "a\nb\n"},
           {long_line + "\n" + long_line, long_line + "\n"},
           {long_line, ""}}) {
    write(before);
    auto file = open();
    file->add("next\n", false);
    file->finish();
    EXPECT_TRUE(text_of(path_) == whole + "next\n") << before.size();
  }
}

TEST_F(EventFileTest, FollowsNoLinkAndWritesToNoFifo) {
  write("");
  const std::string elsewhere = folder_.path() + "/elsewhere";
  std::filesystem::rename(path_, elsewhere);
  std::filesystem::create_symlink(elsewhere, path_);
  EXPECT_FALSE(EventFile::open(path_, [](const std::string&) {}));
  std::filesystem::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  const auto fifo = EventFile::open(path_, [](const std::string&) {});
  ASSERT_FALSE(fifo);
  EXPECT_EQ(fifo.error().message, path_ + " is no plain file");
}

TEST_F(EventFileTest, ADiskThatIsFullIsSaidOnceAndHoldsUpNobody) {
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path());
  auto file =
      EventFile::open("/dev/shm/" + std::filesystem::path(folder_.path()).filename().string(),
                      [this](const std::string& why) { said_ = why; });
  ASSERT_TRUE(file);
  const std::string huge(kEventFileQueueBytesMax + 1, 'x');

  (*file)->add(huge, false);
  (*file)->add("more\n", false);
  (*file)->finish();

  EXPECT_EQ(said_, "callbacks are told nothing more: the disk does not keep up: 64 MiB wait");
  std::filesystem::remove("/dev/shm/" + std::filesystem::path(folder_.path()).filename().string());
}

}  // namespace
}  // namespace train
