#include "lib/net/token.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>

namespace {

bool disk_fails = false;

}  // namespace

/// Replaces the C library's function.
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the header has reserved ones
extern "C" int fsync(int fd) {
  if (!disk_fails) return static_cast<int>(::syscall(SYS_fsync, fd));
  errno = EIO;
  return -1;
}

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

TEST_F(TokenTest, ReadsATokenAfterACallThatASignalEnded) {
  const std::string path = file(std::string(32, 'x'));
  errno = EINTR;
  EXPECT_TRUE(read_token_file(path).has_value());
}

TEST_F(TokenTest, RefusesATokenThatIsTooShortOrTooLong) {
  const std::string path = file("0123456789abcdef0123456789abcde\n");
  EXPECT_EQ(read_token_file(path).error(),
            (Error{Errc::InvalidArgument,
                   "token file " + path + " holds 31 bytes; it must hold 32 to 4096",
                   "make one with: traind token FILE"}));
  EXPECT_EQ(read_token_file(file("")).error().message,
            "token file " + path + " holds 0 bytes; it must hold 32 to 4096");
  EXPECT_EQ(read_token_file(file(std::string(4097, 'x'))).error().message,
            "token file " + path + " has more than 4096 bytes");
}

TEST_F(TokenTest, RefusesAFileThatOthersMayTouch) {
  for (const mode_t mode : {0604u, 0620u, 0602u, 0610u, 0601u, 0644u, 0660u}) {
    const std::string path = file(std::string(32, 'x'), mode);
    const auto token = read_token_file(path);
    ASSERT_TRUE(token.has_error());
    char octal[8];
    std::snprintf(octal, sizeof octal, "%04o", mode);
    EXPECT_EQ(token.error(), (Error{Errc::Permission,
                                    "token file " + path + " has mode " + octal +
                                        ", which gives others access; 0600 is required",
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
                   "token file " + path + " belongs to uid 4711, but must belong to uid 0",
                   "chown 0 " + path}));
}

TEST_F(TokenTest, RefusesWhatIsNotARegularFile) {
  const std::string fifo = (folder_ / "fifo").string();
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(read_token_file(fifo).error(),
            (Error{Errc::InvalidArgument, "token file " + fifo + " is not a regular file"}));
  EXPECT_EQ(read_token_file(folder_.string()).error().message,
            "token file " + folder_.string() + " is not a regular file");
  EXPECT_EQ(read_token_file((folder_ / "none").string()).error().code, Errc::NotFound);
  std::filesystem::create_symlink("loop", folder_ / "loop");
  EXPECT_TRUE(read_token_file((folder_ / "loop").string()).has_error());
}

TEST_F(TokenTest, FollowsALinkThatNobodyElseCanChange) {
  file(std::string(32, 'x'));
  const std::filesystem::path below = folder_ / "a" / "b";
  std::filesystem::create_directories(below);
  std::filesystem::create_symlink("../../token", below / "relative");
  std::filesystem::create_symlink(folder_ / "a", folder_ / "folder");
  std::filesystem::create_symlink(folder_ / "folder" / "b" / "relative", folder_ / "absolute");
  for (const char* path : {"a/b/relative", "folder/b/relative", "absolute", "./a/../absolute"})
    EXPECT_TRUE(read_token_file((folder_ / path).string()).has_value()) << path;
}

TEST_F(TokenTest, RefusesALinkInAFolderThatOthersCanChange) {
  const std::string target = file(std::string(32, 'x'));
  const std::filesystem::path open = folder_ / "open";
  std::filesystem::create_directory(open);
  std::filesystem::create_symlink("../token", open / "link");
  const std::string link = (open / "link").string();
  for (const mode_t mode : {0777u, 0770u, 0722u}) {
    ::chmod(open.c_str(), mode);
    const auto token = read_token_file(link);
    ASSERT_TRUE(token.has_error()) << mode;
    char octal[8];
    std::snprintf(octal, sizeof octal, "%04o", mode);
    EXPECT_EQ(token.error(),
              (Error{Errc::Permission,
                     "token file " + link +
                         " is reached through the link 'link', and others can change "
                         "'open' (uid " +
                         std::to_string(::geteuid()) + ", mode " + octal + ") on that path",
                     "name the file itself"}));
  }
  for (const mode_t mode : {0755u, 01777u}) {  // sticky bit: others cannot replace our link
    ::chmod(open.c_str(), mode);
    EXPECT_TRUE(read_token_file(link).has_value()) << mode;
  }
  // Without a link, only the file itself counts: a replacement would not be ours.
  ::chmod(open.c_str(), 0777);
  std::filesystem::rename(target, open / "token");
  EXPECT_TRUE(read_token_file((open / "token").string()).has_value());
}

TEST_F(TokenTest, RefusesALinkOfSomebodyElse) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a link away";
  file(std::string(32, 'x'));
  const std::filesystem::path shared = folder_ / "shared";
  std::filesystem::create_directory(shared);
  ::chmod(shared.c_str(), 01777);
  std::filesystem::create_symlink("../token", shared / "link");
  ASSERT_TRUE(read_token_file((shared / "link").string()).has_value());
  ASSERT_EQ(::lchown((shared / "link").c_str(), 4711, 4711), 0);
  const auto token = read_token_file((shared / "link").string());
  ASSERT_TRUE(token.has_error());
  EXPECT_NE(token.error().message.find("others can change 'link' (uid 4711"), std::string::npos)
      << token.error().message;
}

/// Acts for a while as another user and group.
class AsUser {
 public:
  AsUser(uid_t uid, gid_t gid) { worked_ = ::setegid(gid) == 0 && ::seteuid(uid) == 0; }
  ~AsUser() {
    worked_ = ::seteuid(0) == 0 && ::setegid(0) == 0;
    EXPECT_TRUE(worked_);
  }
  bool worked() const { return worked_; }

 private:
  bool worked_;
};

TEST_F(TokenTest, OfOtherUsersFilesOnlyRootsAreRead) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ::chmod(folder_.c_str(), 0755);
  const std::string path = file(std::string(32, 'x'), 0444);
  for (const uid_t owner : {4710u, 4712u}) {
    ASSERT_EQ(::chown(path.c_str(), owner, -1), 0);
    const AsUser user(4711, 4711);
    ASSERT_TRUE(user.worked());
    EXPECT_EQ(read_token_file(path).error().message, "token file " + path + " belongs to uid " +
                                                         std::to_string(owner) +
                                                         ", but must belong to uid 4711");
  }
}

// A secret volume as the kubelet makes it, for a pod of user 4711 with fsGroup 4712.
TEST_F(TokenTest, ReadsAKubernetesSecret) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can lay out files of root's for another user";
  ::chmod(folder_.c_str(), 0755);
  const std::filesystem::path volume = folder_ / "volume";
  const std::filesystem::path data = volume / "..2026_11_22_10_00_00.123456789";
  std::filesystem::create_directories(data);
  std::ofstream(data / "token") << std::string(32, 'x');
  std::filesystem::create_symlink("..2026_11_22_10_00_00.123456789", volume / "..data");
  std::filesystem::create_symlink("..data/token", volume / "token");
  ::chmod(volume.c_str(), 03777);
  ASSERT_EQ(::chown(volume.c_str(), 0, 4712), 0);
  ASSERT_EQ(::chown(data.c_str(), 0, 4712), 0);
  ASSERT_EQ(::chown((data / "token").c_str(), 0, 4712), 0);
  const std::string path = (volume / "token").string();

  for (const mode_t mode : {0440u, 0640u, 0444u, 0460u}) {
    ::chmod((data / "token").c_str(), mode);
    const AsUser pod(4711, 4712);
    ASSERT_TRUE(pod.worked());
    EXPECT_EQ(read_token_file(path).has_value(), mode == 0440 || mode == 0640) << mode;
  }
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

TEST_F(TokenTest, NothingIsLeftOfATokenThatTheDiskDoesNotKeep) {
  const std::string path = (folder_ / "new").string();
  disk_fails = true;
  const auto created = create_token_file(path);
  disk_fails = false;
  ASSERT_TRUE(created.has_error());
  EXPECT_EQ(created.error().describe(), "writing token " + path + ": Input/output error");
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(TokenTest, NothingIsLeftOfATokenThatIsWrittenInPart) {
  const std::string path = (folder_ / "new").string();
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  const rlimit little{.rlim_cur = 10, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &little);
  const auto created = create_token_file(path);
  ::setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_TRUE(created.has_error());
  EXPECT_EQ(created.error().describe(), "writing token " + path + ": No space left on device");
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(TokenValue, IsReplacedByWhateverIsAssigned) {
  const std::string a(32, 'a'), b(40, 'b');
  for (const std::size_t to : {0u, 1u}) {  // before and after the other in memory
    const std::string other = to == 0 ? b : a;
    std::array<Token, 2> copied{Token(a), Token(b)}, moved{Token(a), Token(b)};
    copied[to] = copied[1 - to];
    EXPECT_EQ(copied[0].bytes(), other);
    EXPECT_EQ(copied[1].bytes(), other);
    moved[to] = std::move(moved[1 - to]);
    EXPECT_EQ(moved[to].bytes(), other);
    const Token& itself = moved[to];
    moved[to] = itself;
    EXPECT_EQ(moved[to].bytes(), other);
  }
}

}  // namespace
}  // namespace train
