#include "lib/net/tls_files.h"

#include <sys/stat.h>

#include <fstream>

#include "lib/net/certificate_files.h"
#include "tests/unit/lib_net/certificates.h"
#include "tests/unit/lib_net/handshake_fixture.h"

namespace train {
namespace {

constexpr auto kNode = CertificateRole::Node, kLauncher = CertificateRole::Launcher;

class TlsFilesTest : public HandshakeTest {
 protected:
  TlsFilesTest() { EXPECT_TRUE(create_authority(path("ca"), "lab", now_).has_value()); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void make(CertificateRole role, const std::string& name, int days = 100) const {
    const auto made = create_certificate(path("ca"), role, name, path(name), days, now_);
    ASSERT_TRUE(made.has_value()) << made.error().describe();
  }
  /// Replace each file, as a renewal of a certificate does.
  void replace(const std::string& folder, const std::string& by) const {
    for (const char* name : {"tls.key", "tls.crt"})
      std::filesystem::rename(path(by + "/" + name), path(folder + "/" + name));
  }
  TlsFiles read(const std::string& folder, CertificateRole role = kNode) const {
    return TlsFiles::read({.token_file = "", .folder = path(folder)}, role).value();
  }
  /// Return whether a peer with a token of 32 times this letter is accepted.
  bool lets_in(const TlsFiles& files, char letter) {
    const std::optional<TlsContext> theirs = TlsContext::from_token(Token(std::string(32, letter)));
    auto [connector, listener] = tcp_pair();
    const Ends ends = shake(*connector, *listener, theirs, files.context());
    return ends.connector && ends.connector->has_value() && ends.listener &&
           ends.listener->has_value();
  }
  const std::time_t now_ = std::time(nullptr);
  const TimePoint start_{std::chrono::hours(1)};
};

TEST_F(TlsFilesTest, ATokenNeedsNoFile) {
  TlsFiles files = TlsFiles::of_token(Token(std::string(32, 'a')), kNode);
  EXPECT_TRUE(lets_in(files, 'a'));
  EXPECT_FALSE(lets_in(files, 'b'));
  EXPECT_FALSE(files.changed(start_));
  EXPECT_TRUE(files.read_again().has_value());
  EXPECT_TRUE(lets_in(files, 'a'));
}

TEST_F(TlsFilesTest, WithoutFilesThereIsNoTls) {
  auto none = TlsFiles::read({}, kNode);
  ASSERT_TRUE(none.has_value());
  EXPECT_FALSE(none->context());
  EXPECT_FALSE(none->changed(start_));
  EXPECT_TRUE(none->read_again().has_value());
  EXPECT_EQ(none->name() + none->valid_until() + none->soon_over(now_), "");
}

TEST_F(TlsFilesTest, ATokenAndCertificatesAreTooMuch) {
  EXPECT_EQ(
      TlsFiles::read({"token", "folder"}, kNode).error(),
      (Error{Errc::InvalidArgument, "a token file and a folder of certificates are both named",
             "name one: --token-file FILE, or --tls FOLDER"}));
}

TEST_F(TlsFilesTest, ACertificateOfTheOtherRoleIsRefused) {
  make(kNode, "n1");
  make(kLauncher, "ada");
  EXPECT_EQ(
      TlsFiles::read({"", path("n1")}, kLauncher).error(),
      (Error{Errc::InvalidArgument,
             path("n1") + "/tls.crt is for trainrun://lab/node/n1, and a launcher's is asked for",
             "make one with: traind certs launcher USER"}));
  EXPECT_EQ(
      TlsFiles::read({"", path("ada")}, kNode).error(),
      (Error{Errc::InvalidArgument,
             path("ada") + "/tls.crt is for trainrun://lab/launcher/ada, and a node's is asked for",
             "make one with: traind certs node NAME"}));
}

TEST_F(TlsFilesTest, ErrorsNameTheFile) {
  EXPECT_EQ(TlsFiles::read({"", path("none")}, kNode).error().message,
            "opening file " + path("none") + "/ca.crt: No such file or directory");
  make(kNode, "n1");
  ::chmod(path("n1/tls.key").c_str(), 0644);
  EXPECT_EQ(TlsFiles::read({"", path("n1")}, kNode).error().message,
            "key file " + path("n1") +
                "/tls.key has mode 0644, which gives others access; 0600 is required");
  ::chmod(path("n1/tls.key").c_str(), 0600);
  ::chmod(path("n1/ca.crt").c_str(), 0664);
  EXPECT_EQ(TlsFiles::read({"", path("n1")}, kNode).error(),
            (Error{Errc::Permission,
                   "file " + path("n1") +
                       "/ca.crt has mode 0664, which gives others access; 0644 is required",
                   "chmod 644 " + path("n1") + "/ca.crt"}))
      << "whoever writes it chooses whom we trust";
  ::chmod(path("n1/ca.crt").c_str(), 0644);
  std::ofstream(path("n1/tls.crt")) << std::string(300 << 10, 'x');
  EXPECT_EQ(TlsFiles::read({"", path("n1")}, kNode).error().message,
            "file " + path("n1") + "/tls.crt has more than 262144 bytes");
  std::ofstream(path("n1/tls.crt")) << "nothing";
  EXPECT_EQ(TlsFiles::read({"", path("n1")}, kNode).error().message,
            path("n1") + "/tls.crt holds no certificate in PEM");
}

TEST_F(TlsFilesTest, ARenewedCertificateIsTakenInPlace) {
  make(kNode, "n1", 40);
  TlsFiles files = read("n1");
  const std::optional<TlsContext>& context = files.context();
  const std::time_t until = context->valid_until();
  EXPECT_FALSE(files.changed(start_));

  ASSERT_TRUE(create_certificate(path("ca"), kNode, "n1", path("new"), 80, now_).has_value());
  replace("n1", "new");
  EXPECT_FALSE(files.changed(start_ + 900ms)) << "it looks once a second";
  EXPECT_TRUE(files.changed(start_ + 1s));
  EXPECT_FALSE(files.changed(start_ + 2s)) << "it says so once";
  ASSERT_TRUE(files.read_again().has_value());

  EXPECT_EQ(context->valid_until(), until + 40 * kTestDay);
}

TEST_F(TlsFilesTest, WhatCannotBeUsedChangesNothing) {
  make(kNode, "n1", 40);
  TlsFiles files = read("n1");
  const std::time_t until = files.context()->valid_until();

  std::ofstream(path("n1/tls.crt")) << "half a ce";
  EXPECT_TRUE(files.changed(start_));
  EXPECT_EQ(files.read_again().error().message,
            path("n1") + "/tls.crt holds no certificate in PEM");
  EXPECT_EQ(files.context()->valid_until(), until);
  std::filesystem::remove(path("n1/tls.crt"));
  EXPECT_TRUE(files.changed(start_ + 1s));
  EXPECT_FALSE(files.read_again().has_value());
  EXPECT_EQ(files.context()->valid_until(), until);
}

TEST_F(TlsFilesTest, ATokenIsReadAgainToo) {
  std::ofstream(path("token")) << std::string(32, 'A');
  ::chmod(path("token").c_str(), 0600);
  auto files = TlsFiles::read({path("token"), ""}, kNode);
  ASSERT_TRUE(files.has_value());
  EXPECT_EQ(files->name() + files->valid_until() + files->soon_over(now_), "");
  EXPECT_TRUE(lets_in(*files, 'A'));
  std::ofstream(path("token")) << std::string(32, 'B');
  EXPECT_TRUE(files->changed(start_));
  EXPECT_TRUE(lets_in(*files, 'A')) << "it is not read yet";

  EXPECT_TRUE(files->read_again().has_value());

  EXPECT_TRUE(lets_in(*files, 'B'));
  EXPECT_FALSE(lets_in(*files, 'A'));
}

TEST_F(TlsFilesTest, WhatIsSoonOverIsSaid) {
  make(kNode, "n1", 40);
  const TlsFiles files = read("n1");
  EXPECT_EQ(files.name(), "trainrun://lab/node/n1");
  EXPECT_EQ(files.soon_over(now_ + 9 * kTestDay), "");
  EXPECT_EQ(files.soon_over(now_ + 11 * kTestDay),
            "the certificate of trainrun://lab/node/n1 is valid until " + files.valid_until());
}

}  // namespace
}  // namespace train
