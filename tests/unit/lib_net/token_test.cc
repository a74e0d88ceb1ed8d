#include "lib/net/token.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace train {
namespace {

class TokenTest : public testing::Test {
 protected:
  TokenTest() {
    char name[] = "/tmp/token_test.XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~TokenTest() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& content, mode_t mode = 0600) {
    std::string path = (folder_ / "token").string();
    ::unlink(path.c_str());
    std::ofstream(path) << content;
    ::chmod(path.c_str(), mode);
    return path;
  }

  std::filesystem::path folder_;
};

TEST_F(TokenTest, ReadsATokenWithoutTheSpaceAtItsEnd) {
  const auto token = read_token_file(file("0123456789abcdef0123456789abcdef \n\r\n"));
  ASSERT_TRUE(token.has_value()) << token.error().describe();
  EXPECT_EQ(token->bytes(), "0123456789abcdef0123456789abcdef");
}

TEST_F(TokenTest, RefusesATokenThatIsTooShortOrTooLong) {
  const std::string path = file("0123456789abcdef0123456789abcde\n");
  EXPECT_EQ(
      read_token_file(path).error(),
      (Error{Errc::InvalidArgument, "token file " + path + " holds 31 bytes; wanted are 32 to 4096",
             "make one with: traind token FILE"}));
  EXPECT_EQ(read_token_file(file("")).error().message,
            "token file " + path + " holds 0 bytes; wanted are 32 to 4096");
  EXPECT_EQ(read_token_file(file(std::string(4097, 'x'))).error().message,
            "token file " + path + " holds 4097 bytes; wanted are 32 to 4096");
}

TEST_F(TokenTest, RefusesAFileThatOthersMayTouch) {
  for (const mode_t mode : {0640u, 0604u, 0620u, 0602u, 0610u, 0601u}) {
    const std::string path = file(std::string(32, 'x'), mode);
    const auto token = read_token_file(path);
    ASSERT_TRUE(token.has_error());
    char octal[8];
    std::snprintf(octal, sizeof octal, "%04o", mode);
    EXPECT_EQ(token.error(), (Error{Errc::Permission,
                                    "token file " + path + " has mode " + octal +
                                        ", which lets others at it; wanted is 0600",
                                    "chmod 600 " + path}));
  }
  EXPECT_TRUE(read_token_file(file(std::string(32, 'x'), 0400)).has_value());
}

TEST_F(TokenTest, RefusesAFileOfSomebodyElse) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  const std::string path = file(std::string(32, 'x'));
  ASSERT_EQ(::chown(path.c_str(), 4711, -1), 0);
  EXPECT_EQ(read_token_file(path).error(),
            (Error{Errc::Permission,
                   "token file " + path + " belongs to uid 4711, not to uid 0, who reads it",
                   "chown 0 " + path}));
}

TEST_F(TokenTest, RefusesWhatIsNotARegularFile) {
  const std::string path = file(std::string(32, 'x'));
  const std::string link = (folder_ / "link").string(), fifo = (folder_ / "fifo").string();
  std::filesystem::create_symlink(path, link);
  EXPECT_EQ(read_token_file(link).error(),
            (Error{Errc::Permission,
                   "token file " + link + " is a symbolic link; wanted is a regular file",
                   "name the file itself"}));
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(read_token_file(fifo).error(),
            (Error{Errc::InvalidArgument, "token file " + fifo + " is not a regular file"}));
  EXPECT_EQ(read_token_file((folder_ / "none").string()).error().code, Errc::NotFound);
}

TEST_F(TokenTest, CreatesATokenOnceWithModeSixHundred) {
  const std::string path = (folder_ / "new").string();
  ASSERT_TRUE(create_token_file(path).has_value());
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  const auto token = read_token_file(path);
  ASSERT_TRUE(token.has_value());
  EXPECT_EQ(token->bytes().size(), 64u);
  EXPECT_EQ(create_token_file(path).error(),
            (Error{Errc::AlreadyExists, path + " exists already; a token is never overwritten",
                   "name a new file"}));
  EXPECT_NE(Token::generate().bytes(), Token::generate().bytes());
}

}  // namespace
}  // namespace train
