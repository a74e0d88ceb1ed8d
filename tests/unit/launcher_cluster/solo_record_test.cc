// What is read of a program that runs alone.
#include "launcher/cluster/run/solo_record.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace train {
namespace {

TEST(SoloRecord, LooksAtALaterAttemptOnlyOnceTheEarlierOneIsFree) {
  std::string root = "/tmp/solo-record-XXXXXX";
  ASSERT_NE(::mkdtemp(root.data()), nullptr);
  SoloRecord record{RunFolder(root)};
  EXPECT_EQ(record.attempt(), Attempt{0});
  std::filesystem::create_directories(root + "/attempts/000");
  FileDescriptor program(::open((root + "/attempts/000").c_str(), O_RDONLY | O_DIRECTORY));
  ASSERT_EQ(::flock(program.get(), LOCK_EX), 0);
  std::filesystem::create_directories(root + "/attempts/001");  // a process that it has started
  EXPECT_FALSE(record.take());

  program.reset();
  const auto news = record.take();
  ASSERT_TRUE(news);
  EXPECT_EQ(news->began, Attempt{1});
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace train
