#include "launcher/core/ssh_hosts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcher/core/ssh_failure.h"

namespace train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Words = std::vector<std::string>;

std::string mistake(std::string_view text) {
  const auto host = parse_ssh_host(text);
  return host ? "" : host.error().message;
}

TEST(SshHosts, AreReadWithUserAndPort) {
  EXPECT_EQ(*parse_ssh_host("gpu-1"), (SshHost{"", "gpu-1", 0}));
  EXPECT_EQ(*parse_ssh_host("me@gpu-1.example:2222"), (SshHost{"me", "gpu-1.example", 2222}));
  EXPECT_EQ(*parse_ssh_host("me@[fd00::1]:22"), (SshHost{"me", "fd00::1", 22}));
  EXPECT_EQ(*parse_ssh_host("me@example.com@gpu-1"), (SshHost{"me@example.com", "gpu-1", 0}));
}

TEST(SshHosts, AreNeitherOptionsNorWordsForAShell) {
  EXPECT_EQ(mistake(""), "has no host");
  EXPECT_EQ(mistake("me@"), "has no host");
  EXPECT_EQ(mistake("@gpu-1"), "has a user that is no name");
  EXPECT_EQ(mistake("-oProxyCommand=x"), "has a host that is no name");
  EXPECT_EQ(mistake("-l@gpu-1"), "has a user that is no name");
  EXPECT_EQ(mistake("gpu-1;reboot"), "has a host that is no name");
  EXPECT_EQ(mistake("$(reboot)@gpu-1"), "has a user that is no name");
  EXPECT_EQ(mistake("gpu 1"), "has a host that is no name");
  EXPECT_EQ(mistake("fd00::1"), "has an IPv6 address without brackets");
  EXPECT_EQ(mistake("[fd00::1"), "has a bracket that does not end");
  EXPECT_EQ(mistake("[fd00::1]x"), "has text after its bracket");
  EXPECT_EQ(mistake("[]"), "has no IPv6 address in its brackets");
  EXPECT_EQ(mistake("gpu-1:"), "has no port from 1 to 65535");
  EXPECT_EQ(mistake("gpu-1:70000"), "has no port from 1 to 65535");
  EXPECT_EQ(mistake("gpu-1:2x"), "has no port from 1 to 65535");
  EXPECT_EQ(mistake(std::string(254, 'a')), "has a host that is no name");
  EXPECT_EQ(mistake(std::string(253, 'a')), "");
}

TEST(SshHosts, AListNamesEachHostOnce) {
  EXPECT_THAT(*parse_host_list("a\nb\na\nb\n"), ElementsAre("a", "b"));  // PBS, LSF
  EXPECT_THAT(*parse_host_list("a slots=4 # fast\r\n\n# b\nc,d"), ElementsAre("a", "c", "d"));
  EXPECT_THAT(*parse_host_list("a a b"), ElementsAre("a", "b"));  // LSB_HOSTS
}

TEST(SshHosts, AListThatMakesNoSenseIsRefused) {
  const auto refusal = [](const std::string& text) {
    const auto list = parse_host_list(text);
    return list ? "" : list.error().message;
  };
  EXPECT_EQ(refusal(" \n#a\n"), "it names no host");
  EXPECT_EQ(refusal("a\n-x\n"), "'-x' has a host that is no name");
  EXPECT_EQ(refusal(std::string(kHostListBytesMax + 1, ' ')), "it has more than 1048576 bytes");
  std::string many;
  for (std::size_t i = 0; i <= kHostsMax; ++i) many += "n" + std::to_string(i) + "\n";
  EXPECT_EQ(refusal(many), "it has more than 16384 hosts");
}

TEST(SshHosts, ABatchJobNamesThemInAFileOrInAVariable) {
  const auto pbs = hosts_of_batch_job({{"PBS_NODEFILE", "/var/spool/7"}, {"LSB_HOSTS", "x"}});
  EXPECT_EQ(pbs->variable, "PBS_NODEFILE");
  EXPECT_EQ(pbs->value, "/var/spool/7");
  EXPECT_TRUE(pbs->is_file);
  const auto lsf = hosts_of_batch_job({{"LSB_DJOB_HOSTFILE", "/l"}, {"LSB_HOSTS", "a b"}});
  EXPECT_EQ(lsf->variable, "LSB_DJOB_HOSTFILE");
  const auto small = hosts_of_batch_job({{"LSB_HOSTS", "a b"}, {"PBS_NODEFILE", ""}});
  EXPECT_EQ(small->value, "a b");
  EXPECT_FALSE(small->is_file);
  EXPECT_EQ(hosts_of_batch_job({}).error().code, Errc::NotFound);
}

TEST(SshHosts, TheCommandAsksNobodyAndEndsTheOptionsBeforeTheHost) {
  const Words words = ssh_arguments({"me", "gpu-1", 2222},
                                    {.hosts = {}, .traind = "~/t/traind", .config_file = "c"});
  EXPECT_THAT(words, testing::IsSupersetOf({"-T", "BatchMode=yes", "ControlMaster=no"}));
  EXPECT_EQ(Words(words.end() - 9, words.end()),
            (Words{"-F", "c", "-p", "2222", "-l", "me", "--", "gpu-1", "~/t/traind dial-stdio"}));
  const Words plain = ssh_arguments({"", "gpu-1", 0}, {});
  EXPECT_EQ(Words(plain.end() - 4, plain.end() - 1), (Words{"LogLevel=ERROR", "--", "gpu-1"}));
  EXPECT_THAT(plain.back(), HasSubstr("/usr/sbin"));
}

TEST(SshHosts, TheProgramThereIsNoWordForAShell) {
  EXPECT_EQ(remote_program_mistake("/opt/trainrun-0.9/bin/traind"), "");
  EXPECT_EQ(remote_program_mistake("~/bin/traind"), "");
  for (const char* wrong : {"", "traind; reboot", "-x", "$(x)", "a b", "a\nb"})
    EXPECT_NE(remote_program_mistake(wrong), "") << wrong;
}

// ---- failures

SshFailure failed(std::optional<int> code, std::string_view said) {
  return explain_ssh({.host = "me@gpu-1:2222",
                      .arguments = " -p 2222 me@gpu-1",
                      .program = "/opt/traind",
                      .code = code,
                      .said = said});
}

TEST(SshFailures, OfTheLoginSayWhatToDo) {
  const SshFailure key = failed(255,
                                "No ED25519 host key is known for gpu-1 and you have requested "
                                "strict checking.\r\nHost key verification failed.\r\n");
  EXPECT_EQ(key.error.code, Errc::Permission);
  EXPECT_EQ(key.error.message, "ssh to me@gpu-1:2222: Host key verification failed.");
  EXPECT_THAT(key.error.hint, HasSubstr(": ssh -p 2222 me@gpu-1"));
  EXPECT_TRUE(key.final);

  const SshFailure changed = failed(
      255, "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.");
  EXPECT_THAT(changed.error.hint, HasSubstr("ssh-keygen -R"));

  const SshFailure denied = failed(255, "me@gpu-1: Permission denied (publickey).\n");
  EXPECT_EQ(denied.error.message, "ssh to me@gpu-1:2222: me@gpu-1: Permission denied (publickey).");
  EXPECT_THAT(denied.error.hint, HasSubstr("ssh-copy-id -p 2222 me@gpu-1)"));
  EXPECT_THAT(denied.error.hint, HasSubstr("ssh -o BatchMode=yes -p 2222 me@gpu-1 true"));
  EXPECT_TRUE(denied.final);
}

TEST(SshFailures, AKeyFileThatCannotBeReadIsNotTheReason) {
  const SshFailure failure =
      failed(255,
             "Load key \"/home/me/.ssh/old\": Permission denied\r\nssh: connect to host gpu-1 "
             "port 22: Connection refused\r\n");
  EXPECT_FALSE(failure.final);
  EXPECT_EQ(failure.error.code, Errc::Unavailable);
  EXPECT_THAT(failure.error.message, HasSubstr("Connection refused"));
}

TEST(SshFailures, TheCommandByHandIsOneThatSshTakes) {
  EXPECT_EQ(ssh_arguments_by_hand({"me", "gpu-1", 2222}, {}), " -p 2222 me@gpu-1");
  EXPECT_EQ(ssh_arguments_by_hand({"", "fd00::1", 0}, {}), " fd00::1");
  EXPECT_EQ(ssh_arguments_by_hand({"AD\\me", "h", 0}, {.config_file = "/a b"}),
            " -F '/a b' 'AD\\me'@h");
  EXPECT_EQ(failed(3, "no such thing\n").error.hint,
            "try it by hand: ssh -p 2222 me@gpu-1 /opt/traind dial-stdio");
}

TEST(SshFailures, OfTheNetworkMayPass) {
  const SshFailure refused =
      failed(255, "ssh: connect to host gpu-1 port 22: Connection refused\n");
  EXPECT_FALSE(refused.final);
  EXPECT_FALSE(refused.silent);
  EXPECT_EQ(refused.error.code, Errc::Unavailable);
  const SshFailure silent = failed(255, "ssh: connect to host gpu-1 port 22: No route to host\n");
  EXPECT_TRUE(silent.silent);
  const SshFailure reset =
      failed(255, "kex_exchange_identification: Connection closed by remote host\n");
  EXPECT_FALSE(reset.final);
  EXPECT_EQ(reset.error.message,
            "ssh to me@gpu-1:2222: kex_exchange_identification: Connection closed by remote host");
  EXPECT_EQ(failed(255, "").error.message, "ssh to me@gpu-1:2222: ssh failed and does not say why");
}

TEST(SshFailures, TellAHostWithoutTraindFromOneWhoseTraindFails) {
  const SshFailure none = failed(127, "env: 'traind': No such file or directory\n");
  EXPECT_EQ(none.error.message,
            "ssh to me@gpu-1:2222: there is no traind (env: 'traind': No such file or directory)");
  EXPECT_THAT(none.error.hint, HasSubstr("cluster.ssh.traind"));
  EXPECT_TRUE(none.final);
  // The shell's words are not those of ssh.
  EXPECT_EQ(failed(126, "bash: traind: Permission denied\n").error.code, Errc::Unavailable);

  const SshFailure old = failed(64, "The following argument was not expected: dial-stdio\n");
  EXPECT_EQ(old.error.code, Errc::Protocol);
  EXPECT_TRUE(old.final);

  const SshFailure fails = failed(69,
                                  "motd\ntraind: error: traind does not start: no space\ntraind: "
                                  "make room\n");
  EXPECT_EQ(fails.error.message, "ssh to me@gpu-1:2222: traind does not start: no space");
  EXPECT_EQ(fails.error.hint, "make room");
  EXPECT_FALSE(fails.final);
}

TEST(SshFailures, WhateverAHostSaysOfTraindIsNoHarm) {
  EXPECT_EQ(failed(3, "traind: error: \n").error.message, "ssh to me@gpu-1:2222: its traind fails");
  EXPECT_EQ(failed(3, "traind: error: ").error.message, "ssh to me@gpu-1:2222: its traind fails");
  for (const std::string& said :
       {std::string(400, 'x') + " traind: error: far\n", std::string("+ echo traind: error: x\n")})
    EXPECT_THAT(failed(3, said).error.message, HasSubstr("exit code 3")) << said;
  const SshFailure last =
      failed(3, "traind: error: one\ntraind: do this\ntraind: error: two\ntraind: do that\n");
  EXPECT_EQ(last.error.message, "ssh to me@gpu-1:2222: two");
  EXPECT_EQ(last.error.hint, "do that");
}

TEST(SshFailures, AreShownInOneShortLineWithoutControlCharacters) {
  const SshFailure failure = failed(1, std::string(100'000, 'x') + "\x1b[2J\n");
  EXPECT_LT(failure.error.message.size(), 1000u);
  EXPECT_EQ(last_line_of("a\n b\x1b[2J \r\n\n").find('\x1b'), std::string::npos);
  EXPECT_EQ(last_line_of(""), "");
}

TEST(SshFailures, OneThatAnswersSomethingElseIsNoTraind) {
  const SshFailure other =
      explain_ssh({.host = "h", .code = {}, .said = "", .other_program = true});
  EXPECT_TRUE(other.final);
  const SshFailure slow = explain_ssh({.host = "h", .code = {}, .said = "", .timed_out = true});
  EXPECT_TRUE(slow.silent);
  EXPECT_EQ(slow.error.message, "ssh to h: the login took too long");
}

}  // namespace
}  // namespace train
