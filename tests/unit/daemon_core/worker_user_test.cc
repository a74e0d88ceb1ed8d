#include "daemon/core/worker_user.h"

#include <gtest/gtest.h>

namespace train {
namespace {

struct Row {
  std::vector<std::string> allowed;
  std::string asked;
  std::optional<std::string> certificate;
  std::string user;  // "": refused
};

// traind runs as the user "trainrun".
TEST(WorkerUser, IsWhomTraindAllowsAndTheSpecAsksForAndTheCertificateNames) {
  const Row rows[] = {
      // traind allows only itself
      {{}, "", {}, "trainrun"},
      {{}, "trainrun", {}, "trainrun"},
      {{}, "alice", {}, ""},
      {{}, "root", {}, ""},
      {{}, "", "alice", "trainrun"},
      // it allows one user
      {{"alice"}, "", {}, "alice"},
      {{"alice"}, "alice", {}, "alice"},
      {{"alice"}, "bob", {}, ""},
      {{"alice"}, "trainrun", {}, ""},
      {{"alice"}, "root", {}, ""},
      {{"alice"}, "", "bob", "alice"},  // --allow-launcher decides who may use the node
      {{"alice"}, "bob", "bob", ""},
      // it allows several; the launcher has a token
      {{"alice", "bob"}, "", {}, "alice"},
      {{"alice", "bob"}, "bob", {}, "bob"},
      {{"alice", "bob"}, "carol", {}, ""},
      {{"alice", "bob"}, "Alice", {}, ""},
      {{"alice", "bob"}, "alice ", {}, ""},
      // it allows several; the launcher has a certificate
      {{"alice", "bob"}, "", "bob", "bob"},
      {{"alice", "bob"}, "bob", "bob", "bob"},
      {{"alice", "bob"}, "alice", "bob", ""},
      {{"alice", "bob"}, "", "carol", ""},
      {{"alice", "bob"}, "carol", "carol", ""},
      {{"alice", "bob"}, "", "", ""},
  };
  for (const Row& row : rows) {
    const auto user = worker_user({"trainrun", row.allowed}, row.asked, row.certificate);
    EXPECT_EQ(user ? *user : "", row.user) << row.allowed.size() << " asked " << row.asked
                                           << " certificate " << row.certificate.value_or("none");
    if (!user) EXPECT_EQ(user.error().code, Errc::Permission);
  }
}

TEST(WorkerUser, ARefusalSaysWhatToDo) {
  EXPECT_EQ(worker_user({"trainrun", {}}, "alice", {}).error(),
            (Error{Errc::Permission, "this node does not run workers as alice for this run",
                   "its traind runs workers as trainrun: leave run_config.user out, or start "
                   "traind as root with --run-as alice"}));
  EXPECT_EQ(worker_user({"root", {"alice", "bob"}}, "carol", {}).error().hint,
            "set run_config.user to a user that its traind allows: alice, bob (--run-as)");
  EXPECT_EQ(worker_user({"root", {"alice", "bob"}}, "alice", "bob").error().hint,
            "the launcher's certificate is bob's: leave run_config.user out, or use alice's "
            "certificate");
  EXPECT_EQ(worker_user({"root", {"alice", "bob"}}, "", "carol").error().hint,
            "ask the administrator of its traind to add --run-as carol");
}

}  // namespace
}  // namespace train
