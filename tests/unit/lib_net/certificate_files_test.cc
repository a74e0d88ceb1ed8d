#include "lib/net/certificate_files.h"

#include <sys/stat.h>

#include <fstream>

#include "tests/unit/lib_net/certificates.h"
#include "tests/unit/lib_net/net_fixture.h"

namespace train {
namespace {

class CertificateFilesTest : public NetTest {
 protected:
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static int mode_of(const std::string& file) {
    struct stat status {};
    return ::stat(file.c_str(), &status) == 0 ? static_cast<int>(status.st_mode & 07777) : -1;
  }
  std::string read(const std::string& name) const {
    std::ifstream file(path(name));
    return {std::istreambuf_iterator<char>(file), {}};
  }
  Result<std::time_t> make_node(const std::string& folder, int days = 10) const {
    return create_certificate(path("ca"), CertificateRole::Node, "n1", path(folder), days, now_);
  }
  const std::time_t now_ = std::time(nullptr);
};

TEST_F(CertificateFilesTest, KeysAreTheirOwnersOnly) {
  ::umask(0);
  ASSERT_TRUE(create_authority(path("ca"), "lab", now_).has_value());
  const auto until = make_node("n1");
  ::umask(022);

  ASSERT_TRUE(until.has_value()) << until.error().describe();
  EXPECT_EQ(*until, now_ + 10 * kTestDay);
  EXPECT_EQ(mode_of(path("ca")), 0700);
  EXPECT_EQ(mode_of(path("n1")), 0700);
  EXPECT_EQ(mode_of(path("ca/ca.key")), 0600);
  EXPECT_EQ(mode_of(path("n1/tls.key")), 0600);
  for (const char* certificate : {"ca/ca.crt", "n1/ca.crt", "n1/tls.crt"})
    EXPECT_EQ(mode_of(path(certificate)), 0644) << certificate;
  EXPECT_EQ(read("n1/ca.crt"), read("ca/ca.crt"));
  EXPECT_FALSE(std::filesystem::exists(path("n1/ca.key")));
}

TEST_F(CertificateFilesTest, NothingIsOverwrittenAndNothingIsLeftHalfDone) {
  ASSERT_TRUE(create_authority(path("ca"), "lab", now_).has_value());
  const std::string before = read("ca/ca.key");
  EXPECT_EQ(create_authority(path("ca"), "lab", now_).error(),
            (Error{Errc::AlreadyExists,
                   path("ca") + "/ca.key exists already; a file is never overwritten",
                   "name another --out, or move that folder away"}));
  EXPECT_EQ(read("ca/ca.key"), before);

  std::filesystem::create_directory(path("n1"));
  std::ofstream(path("n1/ca.crt")) << "mine";
  EXPECT_EQ(make_node("n1").error().code, Errc::AlreadyExists);
  EXPECT_EQ(read("n1/ca.crt"), "mine");
  EXPECT_FALSE(std::filesystem::exists(path("n1/tls.key")));
  EXPECT_FALSE(std::filesystem::exists(path("n1/tls.crt")));
}

TEST_F(CertificateFilesTest, AFileInPlaceOfTheFolderIsNotTakenForAnEarlierKey) {
  std::ofstream(path("notes")) << "mine";
  EXPECT_EQ(create_authority(path("notes"), "lab", now_).error().describe(),
            "creating file " + path("notes") + "/ca.key: Not a directory");
  EXPECT_EQ(read("notes"), "mine");
}

TEST_F(CertificateFilesTest, ANameThatIsNoneIsSaidBeforeAnythingIsRead) {
  const auto why = [&](CertificateRole role) {
    return create_certificate(path("ca"), role, "../x", path("n1"), 10, now_).error().message;
  };
  EXPECT_EQ(why(CertificateRole::Node), "'../x' cannot be the name of a node");
  EXPECT_EQ(why(CertificateRole::Launcher), "'../x' cannot be the name of a user");
}

TEST_F(CertificateFilesTest, FilesAreMadeWithoutAStandardInputToo) {
  std::filesystem::create_directory(path("ca"));
  const int input = ::dup(STDIN_FILENO);
  ::close(STDIN_FILENO);
  const auto made = create_authority(path("ca"), "lab", now_);
  if (input >= 0) ::dup2(input, STDIN_FILENO);
  ::close(input);
  EXPECT_TRUE(made.has_value()) << made.error().describe();
}

TEST_F(CertificateFilesTest, AnAuthoritysKeyThatOthersCanReadIsRefused) {
  ASSERT_TRUE(create_authority(path("ca"), "lab", now_).has_value());
  ::chmod(path("ca/ca.key").c_str(), 0644);
  EXPECT_EQ(make_node("n1").error(),
            (Error{Errc::Permission,
                   "key file " + path("ca") +
                       "/ca.key has mode 0644, which gives others access; 0600 is required",
                   "chmod 600 " + path("ca") + "/ca.key"}));
  EXPECT_FALSE(std::filesystem::exists(path("n1")));
}

}  // namespace
}  // namespace train
