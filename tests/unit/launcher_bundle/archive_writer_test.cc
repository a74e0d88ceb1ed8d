#include "launcher/bundle/archive_writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

namespace train {
namespace {

namespace fs = std::filesystem;

class ArchiveWriterTest : public testing::Test {
 protected:
  ArchiveWriterTest() { fs::create_directories(folder_); }
  ~ArchiveWriterTest() override { fs::remove_all(folder_); }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(folder_))
      found.push_back(entry.path().filename().string());
    return found;
  }
  const std::string folder_ =
      fs::temp_directory_path().string() + "/archive_writer_test." + std::to_string(::getpid());
  const std::string path_ = folder_ + "/a.tar.gz";
};

TEST_F(ArchiveWriterTest, GetsItsNameOnlyOnceItIsComplete) {
  auto archive = ArchiveWriter::begin(path_);
  ASSERT_TRUE(archive.has_value());
  ASSERT_TRUE(archive->add("in/a", "text").has_value());
  EXPECT_FALSE(fs::exists(path_));

  const auto bytes = archive->finish();

  ASSERT_TRUE(bytes.has_value());
  EXPECT_EQ(fs::file_size(path_), *bytes);
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  EXPECT_EQ(names(), std::vector<std::string>{"a.tar.gz"});
}

TEST_F(ArchiveWriterTest, LeavesNothingWhereItIsNotCompleted) {
  {
    auto archive = ArchiveWriter::begin(path_);
    ASSERT_TRUE(archive.has_value());
    ASSERT_TRUE(archive->add("a", "text").has_value());
    EXPECT_FALSE(fs::exists(path_));
  }
  EXPECT_EQ(names(), std::vector<std::string>{});
}

TEST_F(ArchiveWriterTest, ReplacesNoFile) {
  std::ofstream(path_) << "other";
  EXPECT_EQ(ArchiveWriter::begin(path_).error().code, Errc::AlreadyExists);
  fs::remove(path_);

  auto archive = ArchiveWriter::begin(path_);
  ASSERT_TRUE(archive.has_value());
  std::ofstream(path_) << "other";  // meanwhile

  EXPECT_EQ(archive->finish().error().code, Errc::AlreadyExists);
  std::string text;
  std::ifstream(path_) >> text;
  EXPECT_EQ(text, "other");
}

TEST_F(ArchiveWriterTest, SaysThatAFileCannotGrowFurtherAndLeavesNothing) {
  struct rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const struct rlimit small { 4096, before.rlim_max };
  std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  std::string noise;
  for (std::uint32_t i = 0, x = 1; i < 1'000'000; ++i, x = x * 1664525 + 1013904223)
    noise += static_cast<char>(x >> 24);
  Result<std::uint64_t> bytes = std::uint64_t{0};
  Result<Unit> added = Unit{};
  {
    auto archive = ArchiveWriter::begin(path_);
    ASSERT_TRUE(archive.has_value());
    added = archive->add("a", noise);
    if (added) bytes = archive->finish();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);

  ASSERT_TRUE(added.has_error());
  EXPECT_NE(added.error().message.find("File too large"), std::string::npos)
      << added.error().message;
  EXPECT_EQ(names(), std::vector<std::string>{});
}

}  // namespace
}  // namespace train
