// Gets access tokens for Google's storage from a server that verifies the caller.
#include "lib/storage/remote/google_credentials.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/e2e/cluster.h"

namespace train::remote {
namespace {

using e2e::contains;

class GoogleTokens : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string python = e2e::tools_python();
    if (python.empty()) GTEST_SKIP() << "SKIPPED: the Python tools are not installed";
    e2e::Process& server = cluster.start(
        {python, TRAIN_SOURCE_DIR "/tests/e2e/programs/google_tokens.py", cluster.path("")});
    ASSERT_TRUE(e2e::wait_until([&] { return contains(server.out(), "\n"); })) << server.err();
    host = server.out().substr(0, server.out().find('\n'));
  }
  Result<std::unique_ptr<GoogleCredentials>> find(const std::string& file) {
    std::map<std::string, std::string> environment = {{"HOME", cluster.path("nobody")},
                                                      {"GCE_METADATA_HOST", host}};
    if (!file.empty()) environment["GOOGLE_APPLICATION_CREDENTIALS"] = cluster.path(file);
    return GoogleCredentials::find({.environment = environment});
  }
  std::string token(const std::string& file) {
    auto credentials = find(file);
    if (credentials.has_error()) return credentials.error().describe();
    const auto token = (*credentials)->token();
    return token.has_error() ? token.error().describe() : *token;
  }
  std::ptrdiff_t requests() const {
    const std::string lines = cluster.read(cluster.path("requests"));
    return std::count(lines.begin(), lines.end(), '\n');
  }

  e2e::Cluster cluster;
  std::string host;
};

TEST_F(GoogleTokens, AreGivenToServiceAccountsUsersAndMachines) {
  EXPECT_EQ(token("account.json"), "token of robot@project");
  EXPECT_EQ(token("user.json"), "token of a user");
  EXPECT_EQ(token(""), "token of this machine");
}

TEST_F(GoogleTokens, AreKeptUntilTheirEndIsNear) {
  const auto credentials = find("account.json");
  ASSERT_TRUE(credentials) << credentials.error().describe();
  EXPECT_TRUE((*credentials)->token());
  EXPECT_TRUE((*credentials)->token());
  EXPECT_EQ(requests(), 1);
  cluster.write("short", "");
  const auto brief = find("account.json");
  EXPECT_TRUE((*brief)->token());
  EXPECT_TRUE((*brief)->token());
  EXPECT_EQ(requests(), 3);
}

TEST_F(GoogleTokens, WhoeverCannotHaveOneIsToldWhy) {
  EXPECT_TRUE(contains(token("stranger.json"), R"(: 401 {"error": "invalid_grant"})"))
      << token("stranger.json");
  host = "127.0.0.1:1";
  EXPECT_EQ((*find(""))->token().error().code, Errc::Permission) << "it is no machine of Google's";
  EXPECT_TRUE(contains(token("absent.json"), "(GOOGLE_APPLICATION_CREDENTIALS) cannot be read"));
  EXPECT_TRUE(
      contains(token("runs"), "(GOOGLE_APPLICATION_CREDENTIALS) cannot be read"));  // a folder
  cluster.write("federated.json", R"({"type": "external_account"})");
  EXPECT_TRUE(contains(token("federated.json"),
                       "holds credentials of type 'external_account', which are not known here"));
  cluster.write("cut.json", R"({"type": "authorized_user", "client_id": "id"})");
  EXPECT_TRUE(contains(token("cut.json"), "has no \"client_secret\""));
  cluster.write("cut.json", R"({"type": "authori)");
  EXPECT_TRUE(contains(token("cut.json"), "does not hold Google credentials"));
  cluster.write("key.json",
                R"({"type": "service_account", "client_email": "a", "private_key_id": "b",
                               "private_key": "none"})");
  EXPECT_TRUE(contains(token("key.json"), "private_key cannot be used"));
}

}  // namespace
}  // namespace train::remote
