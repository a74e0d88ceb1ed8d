#include "lib/base/text_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace train {
namespace {

TEST(ReadText, IsTheWholeFileOrNothing) {
  const std::string folder = "/tmp/text_file." + std::to_string(::getpid());
  const std::string file = folder + "/file";
  std::filesystem::create_directory(folder);
  const std::string text("two\nlines\0and a zero", 20);
  std::ofstream(file, std::ios::binary) << text;

  EXPECT_EQ(read_text(file), text);
  EXPECT_EQ(read_text(folder + "/none"), "");
  EXPECT_EQ(read_text(folder), "");  // a folder can be opened but not read
  EXPECT_EQ(*read_text_from(file, 4), text.substr(4));
  EXPECT_EQ(*read_text_from(file, text.size() + 1), "");
  EXPECT_EQ(read_text_from(folder + "/none", 4).error().code, Errc::NotFound);
  EXPECT_EQ(read_text_from(folder, 4).error().code, Errc::Io);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace train
