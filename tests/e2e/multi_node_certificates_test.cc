// Certificates instead of a token, as a site makes them with `traind certs`: who may run where, and
// how a site renews them while runs go on.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <ctime>
#include <filesystem>

#include "lib/net/tls_files.h"
#include "tests/e2e/multi_node.h"

namespace train::e2e {
namespace {

namespace fs = std::filesystem;

class MultiNodeCertificates : public ::testing::Test {
 protected:
  /// Run `traind certs WORDS`. Return its stdout, or its stderr if it fails.
  std::string certs(std::vector<std::string> words, int code = 0) {
    words.insert(words.begin(), {built("traind"), "certs"});
    Process& made = cluster.start(words);
    EXPECT_EQ(made.wait(), code) << made.err();
    return code == 0 ? made.out() : made.err();
  }
  void make_site() {
    certs({"ca", "--cluster", "lab"});
    certs({"node", "n0", "n1"});
    certs({"launcher", "ada", "bob"});
  }
  std::vector<std::string> tls(const std::string& name) const {
    return {"--tls", cluster.path(name)};
  }
  static std::vector<std::string> with(std::vector<std::string> words,
                                       const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string hello_job(const std::string& name) const {
    return cluster.job(name,
                       "command: 'echo hello from $RANK'\nscaling_config: {num_workers: 1}\n");
  }
  /// Replace the contents of a folder of certificates by those of another folder.
  void replace(const std::string& folder, const std::string& by) const {
    for (const char* name : {"ca.crt", "tls.key", "tls.crt"})
      fs::rename(cluster.path(by + "/" + name), cluster.path(folder + "/" + name));
  }

  Cluster cluster;
};

TEST_F(MultiNodeCertificates, AreMadeByTraindAndSaidWhatToDoWith) {
  EXPECT_EQ(certs({"ca", "--cluster", "lab"}),
            "ca/ca.crt  is for every node and launcher of cluster 'lab'\n"
            "ca/ca.key  signs their certificates: keep it off the nodes\n");
  const std::string node = certs({"node", "n0", "--days", "30", "--out", cluster.path("out")}, 73);
  EXPECT_EQ(node, fmt::format("traind: error: making folder {0}/n0: No such file or directory\n",
                              cluster.path("out")));
  const std::string made = certs({"node", "n0"});
  EXPECT_TRUE(made.starts_with("n0  valid until 20")) << made;
  EXPECT_TRUE(contains(made, ": copy it to n0, and start traind --tls FOLDER there\n")) << made;
  EXPECT_EQ(certs({"node", "n0"}, 73),
            "traind: error: n0/tls.key exists already; a file is never overwritten\n"
            "traind: name another --out, or move that folder away\n");
  EXPECT_EQ(
      certs({"launcher", "../ada"}, 65),
      "traind: error: '../ada' cannot be the name of a user\n"
      "traind: take 1 to 63 letters, digits, '.', '-' and '_', the first a letter or digit\n");
  EXPECT_EQ(certs({"launcher", "ada", "--ca", "none"}, 73),
            "traind: error: opening key file none/ca.key: No such file or directory\n");
  EXPECT_EQ(certs({}, 64), "A subcommand is required\nRun with --help for more information.\n");
}

TEST_F(MultiNodeCertificates, AreValidForAYearUnlessDaysSayOtherwise) {
  certs({"ca", "--cluster", "lab"});
  const std::string bob = certs({"launcher", "bob"});
  const std::string eve = certs({"launcher", "eve", "--days", "3650"});

  const auto until = [&](const std::string& name) {
    const auto files =
        TlsFiles::read({.token_file = "", .folder = cluster.path(name)}, CertificateRole::Launcher);
    EXPECT_TRUE(files) << files.error().describe();
    return files ? std::pair(files->context()->valid_until(), files->valid_until())
                 : std::pair(std::time_t{}, std::string());
  };
  const auto days_from_now = [](std::time_t then) {
    return static_cast<double>(then - std::time(nullptr)) / (24 * 3600);
  };
  EXPECT_NEAR(days_from_now(until("bob").first), 365, 1);
  EXPECT_NEAR(days_from_now(until("eve").first), 3650, 1) << "as long as the authority";
  EXPECT_TRUE(contains(bob, "bob  valid until " + until("bob").second + ": ")) << bob;
  EXPECT_TRUE(contains(eve, "eve  valid until " + until("eve").second + ": ")) << eve;
}

TEST_F(MultiNodeCertificates, ARunOverThemEndsAsAnyOther) {
  make_site();
  Nodes nodes(cluster, 2);
  for (int node : {0, 1})
    nodes.start(node, with({"--resource", "CPU=1"}, tls(fmt::format("n{}", node))));
  const std::string job =
      cluster.job("job", "command: [" + program("sdk_worker") +
                             "]\n"
                             "scaling_config: {num_workers: 2, placement_strategy: STRICT_SPREAD}\n"
                             "train_loop_config: {mode: epochs, epochs: 6, checkpoint_every: 2}\n");

  Process& run = nodes.train_run(job, 2, tls("ada"));

  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_EQ(reports(cluster, "job").size(), 2u * 6u);
  expect_exactly_once(reports(cluster, "job"));
  EXPECT_TRUE(contains(nodes.daemon(0).err(), " user=ada")) << nodes.daemon(0).err();
}

TEST_F(MultiNodeCertificates, WhoShowsAnotherOrNoneIsRefused) {
  make_site();
  certs({"ca", "--cluster", "lab", "--out", "other-ca"});
  certs({"launcher", "eve", "--ca", "other-ca"});
  Nodes nodes(cluster, 1);
  nodes.start(0, tls("n0"));
  const std::string node = nodes.endpoint(0);
  // Simulate that she has added the site's authority to her own.
  cluster.write("eve/ca.crt", cluster.read(cluster.path("ca/ca.crt")) +
                                  cluster.read(cluster.path("other-ca/ca.crt")));
  const auto cause = [&](const std::string& name, const std::vector<std::string>& shown) {
    Process& run = nodes.train_run(hello_job(name), 1, shown);
    EXPECT_EQ(run.wait(), 77) << run.out() << run.err();
    return contains(run.out(), "did not start") ? text_of(cluster.exit_json(name), "cause")
                                                : run.err();
  };

  EXPECT_EQ(cause("eve", tls("eve")), node + " refuses our certificate");
  ASSERT_EQ(cluster.start({built("traind"), "token", cluster.path("some-token")}).wait(), 0);
  EXPECT_EQ(cause("token", {"--token-file", cluster.path("some-token")}),
            node + " presents a certificate, but a token is required here");
  EXPECT_EQ(cause("node", tls("n1")),
            fmt::format("train-run: error: {}/tls.crt is for trainrun://lab/node/n1, and a "
                        "launcher's is asked for\n"
                        "train-run: make one with: traind certs launcher USER\n",
                        cluster.path("n1")));
  EXPECT_TRUE(cluster.workers().empty());
  Process& run = nodes.train_run(hello_job("right"), 1, tls("bob"));
  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
}

TEST_F(MultiNodeCertificates, ANodeMayBeForSomeUsersOnly) {
  make_site();
  Nodes nodes(cluster, 1);
  Process& daemon = nodes.start(0, with(tls("n0"), {"--allow-launcher", "ada"}));

  Process& bobs = nodes.train_run(hello_job("bobs"), 1, tls("bob"));
  EXPECT_EQ(bobs.wait(), 77) << bobs.out() << bobs.err();
  EXPECT_EQ(text_of(cluster.exit_json("bobs"), "cause"),
            nodes.endpoint(0) + ": bob may not use this node");
  EXPECT_TRUE(wait_until([&] { return contains(daemon.err(), "user=bob"); })) << daemon.err();
  Process& adas = nodes.train_run(hello_job("adas"), 1, tls("ada"));
  EXPECT_EQ(adas.wait(), 0) << adas.out() << adas.err();
}

TEST_F(MultiNodeCertificates, WorkersRunAsTheUserWhomTheCertificateNames) {
  if (::geteuid() != 0 || ::getpwnam("games") == nullptr || ::getpwnam("backup") == nullptr)
    GTEST_SKIP() << "needs root, and the users games and backup";
  make_site();
  certs({"launcher", "games", "backup"});
  ::chmod(cluster.dir().c_str(), 0711);  // opens the job's working folder
  Nodes nodes(cluster, 1);
  nodes.start(0, with(tls("n0"), {"--run-as", "games", "--run-as", "backup"}));
  const auto job = [&](const std::string& name, const std::string& user = "") {
    return cluster.job(name, "command: [id, -un]\nscaling_config: {num_workers: 1}\n",
                       user.empty() ? "" : "  user: " + user + "\n");
  };

  Process& backups = nodes.train_run(job("backups"), 1, tls("backup"));
  EXPECT_EQ(backups.wait(), 0) << backups.out() << backups.err();
  EXPECT_EQ(cluster.read(cluster.run_dir("backups") + "/attempts/000/ranks/0000/stdout.log"),
            "backup\n");

  Process& adas = nodes.train_run(job("adas"), 1, tls("ada"));
  EXPECT_EQ(adas.wait(), 77) << adas.out() << adas.err();
  EXPECT_EQ(text_of(cluster.exit_json("adas"), "cause"),
            nodes.endpoint(0) + ": this node does not run workers as ada for this run");
  Process& others = nodes.train_run(job("others", "games"), 1, tls("backup"));
  EXPECT_EQ(others.wait(), 77) << others.out() << others.err();
  EXPECT_EQ(text_of(cluster.exit_json("others"), "cause"),
            nodes.endpoint(0) + ": this node does not run workers as games for this run");
}

TEST_F(MultiNodeCertificates, ADaemonIsCalledAsItsCertificateSays) {
  make_site();
  const auto start = [&](const std::vector<std::string>& more) -> Process& {
    return cluster.traind(with({"--listen", "127.0.0.1:0", "--allow-root", "--runtime-dir",
                                cluster.path("rt-x"), "--spool-dir", cluster.path("sp-x")},
                               more));
  };
  Process& other = start(with(tls("n1"), {"--node-name", "n0"}));
  EXPECT_EQ(other.wait(), 78);
  EXPECT_EQ(other.err(),
            "traind: error: this node is called n0, but its certificate is for n1\n"
            "traind: leave --node-name out, or make a certificate for it: traind certs node n0\n");
  Process& users = start(tls("ada"));
  EXPECT_EQ(users.wait(), 78);
  EXPECT_TRUE(
      contains(users.err(), "is for trainrun://lab/launcher/ada, and a node's is asked for"))
      << users.err();
  Process& both = start(with(tls("n1"), {"--token-file", "token"}));
  EXPECT_EQ(both.wait(), 78);
  EXPECT_EQ(both.err(),
            "traind: error: a token file and a folder of certificates are both named\n"
            "traind: name one: --token-file FILE, or --tls FOLDER\n");
  Process& right = start(tls("n1"));
  EXPECT_TRUE(wait_until([&] { return contains(right.err(), "node=n1 msg=listening"); }))
      << right.err();
}

// Certificates are renewed on SIGHUP or by the next connection. Links stay; nothing restarts.
TEST_F(MultiNodeCertificates, AreRenewedBelowARunThatGoesOn) {
  make_site();
  Nodes nodes(cluster, 1);
  Process& daemon = nodes.start(0, tls("n0"));
  const std::string job = cluster.job(
      "job", "command: [" + program("sdk_worker") +
                 "]\n"
                 "scaling_config: {num_workers: 1}\n"
                 "train_loop_config: {mode: epochs, epochs: 20, checkpoint_every: 0, hold_at: [5], "
                 "hold_file: '" +
                 cluster.path("go") + "'}\n");
  Process& run = nodes.train_run(job, 1, tls("ada"));
  ASSERT_TRUE(wait_until([&] { return !reports(cluster, "job").empty(); }))
      << run.out() << run.err();

  // The site has a new authority, and nobody trusts the old one any more.
  certs({"ca", "--cluster", "lab", "--out", "new-ca"});
  fs::create_directory(cluster.path("new"));
  certs({"node", "n0", "--ca", "new-ca", "--out", cluster.path("new")});
  certs({"launcher", "ada", "--ca", "new-ca", "--out", cluster.path("new")});
  replace("ada", "new/ada");
  replace("n0", "new/n0");
  daemon.signal(SIGHUP);
  EXPECT_TRUE(wait_until([&] { return contains(daemon.err(), "read again"); })) << daemon.err();
  EXPECT_TRUE(contains(daemon.err(), "name=trainrun://lab/node/n0")) << daemon.err();
  Process& bob = nodes.train_run(hello_job("bob"), 1, tls("bob"));
  EXPECT_EQ(bob.wait(), 77) << bob.out() << bob.err();

  // The run's link breaks. The launcher, which is as old as the run, shows its new certificate.
  daemon.signal(SIGKILL);
  ASSERT_TRUE(daemon.wait());
  Process& again = nodes.start(0, tls("n0"));
  cluster.write("go-0-5", "");
  EXPECT_EQ(run.wait(), 0) << run.out() << run.err() << again.err();
  EXPECT_EQ(restarts(cluster, "job"), 0);
  expect_exactly_once(reports(cluster, "job"));
}

TEST_F(MultiNodeCertificates, WhatCannotBeUsedLeavesTheOldInForce) {
  make_site();
  Nodes nodes(cluster, 1);
  Process& daemon = nodes.start(0, tls("n0"));
  ::chmod(cluster.path("n0/tls.key").c_str(), 0644);
  daemon.signal(SIGHUP);
  EXPECT_TRUE(wait_until([&] {
    return contains(daemon.err(), "keeping the previous token or certificates");
  })) << daemon.err();
  EXPECT_TRUE(contains(daemon.err(), "has mode 0644, which gives others access")) << daemon.err();
  Process& run = nodes.train_run(hello_job("job"), 1, tls("ada"));
  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
}

TEST_F(MultiNodeCertificates, TheSpecOrAVariableNamesThemToo) {
  make_site();
  Nodes nodes(cluster, 1);
  nodes.start(0, tls("n0"));
  const std::string in_spec =
      cluster.job("spec", fmt::format("command: 'echo hello'\nscaling_config: {{num_workers: 1}}\n"
                                      "cluster: {{nodes: ['{}'], tls: ada}}\n",
                                      nodes.endpoint(0)));
  EXPECT_EQ(cluster.run({in_spec}), 0);

  const std::string in_variable = cluster.job(
      "variable",
      "command: 'echo tls is ${TRAINRUN_TLS:-nowhere}'\nscaling_config: {num_workers: 1}\n");
  Process& run =
      cluster.train_run({in_variable, "--hosts", nodes.hosts(1)},
                        {.env = {{"TRAINRUN_TLS", cluster.path("ada")}}, .prefix = {}, .cwd = ""});
  EXPECT_EQ(run.wait(), 0) << run.out() << run.err();
  EXPECT_TRUE(contains(run.out(), "tls is nowhere")) << "workers do not hear of it: " << run.out();
}

}  // namespace
}  // namespace train::e2e
