#include "lib/base/secrets.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace train {
namespace {

TEST(Secrets, KnowsNamesOfSecretsByWholeWords) {
  for (const char* name : {"HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "db_password", "dbPassword",
                           "DATABASE_URL", "SENTRY_DSN", "API_KEY", "apiKey", "X-Amz-Signature",
                           "MYSQL_PWD", "PGPASSWORD", "SSH_PRIVATE_KEY", "optimizer.api_key"}) {
    EXPECT_TRUE(names_a_secret(name)) << name;
    EXPECT_TRUE(may_name_a_secret(name)) << name;
  }
  for (const char* name : {"TOKENIZERS_PARALLELISM", "max_tokens", "token_file", "TOKEN_LENGTH",
                           "PATH", "epochs", "MONKEY", "lr", ""}) {
    EXPECT_FALSE(names_a_secret(name)) << name;
    EXPECT_FALSE(may_name_a_secret(name)) << name;
  }
  for (const char* name : {"KEY", "WANDB_KEY", "HTTP_AUTH", "GOOGLE_APPLICATION_CREDENTIALS"}) {
    EXPECT_FALSE(names_a_secret(name)) << name;
    EXPECT_TRUE(may_name_a_secret(name)) << name;
  }
  EXPECT_FALSE(may_name_a_secret("SSH_AUTH_SOCK"));
}

TEST(Secrets, LearnedValuesAreHiddenWhereverTheyStand) {
  learn_secrets({{"FIRST_TOKEN", "canary-1"},
                 {"SECOND_TOKEN", "canary-1-and-more"},
                 {"HOME", "/home/canary"}});

  EXPECT_EQ(redacted("got canary-1, canary-1-and-more and /home/canary"),
            "got <redacted:FIRST_TOKEN>, <redacted:SECOND_TOKEN> and /home/canary");
  EXPECT_EQ(redacted(""), "");
}

TEST(Secrets, ValuesThatWouldHideOtherTextAreNotLearned) {
  learn_secrets({{"SHORT_PASSWORD", "root"},
                 {"SOME_CREDENTIALS", "/etc/some/credentials.json"},
                 {"SLASH_SECRET_KEY", "/wJalrXUtnFEMI"}});

  EXPECT_EQ(redacted("root reads /etc/some/credentials.json"),
            "root reads /etc/some/credentials.json");
  EXPECT_EQ(redacted("not /wJalrXUtnFEMI"), "not <redacted:SLASH_SECRET_KEY>");
}

TEST(Secrets, LinesOfALongOneAndItsFormInJsonAreHiddenToo) {
  learn_secret("TLS_KEY", "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\n-----END KEY-----\n");
  learn_secret("QUOTED_KEY", "say \"please\"");

  EXPECT_EQ(redacted("line 2: MIIEvQIBADANBgkqhkiG9w0B!"), "line 2: <redacted:TLS_KEY>!");
  EXPECT_EQ(redacted(R"({"text":"say \"please\""})"), R"({"text":"<redacted:QUOTED_KEY>"})");
}

TEST(Secrets, PasswordsInUrlsAreHiddenAndLearned) {
  EXPECT_EQ(
      redacted("postgres://me:pw@db:5432/x, hdfs://me@host:8020/a and http://host:80/@b:c@"),
      "postgres://me:<redacted:URL>@db:5432/x, hdfs://me@host:8020/a and http://host:80/@b:c@");
  EXPECT_EQ(redacted("a://b:c@d@e/f"), "a://b:<redacted:URL>@e/f");
  EXPECT_EQ(redacted("clone https://ghp_0123456789abcdef@github.com/x or https://me@host:80/x, "
                     "ssh://someone-with-a-long-name@host"),
            "clone https://<redacted:URL>@github.com/x or https://me@host:80/x, "
            "ssh://someone-with-a-long-name@host");
  learn_secrets({{"BROKER", "amqp://user:sup3rs3cret@host/"}});
  EXPECT_EQ(redacted("login with sup3rs3cret failed"), "login with <redacted:BROKER> failed");
}

TEST(Secrets, WhatIsAssignedToASecretsNameIsHidden) {
  EXPECT_EQ(redacted("API_KEY=abc --password='a b' x=1 https://h/?user=a&sig=1&token=t/2&b"),
            "API_KEY=<redacted:API_KEY> --password='<redacted:password>' x=1 "
            "https://h/?user=a&sig=1&token=<redacted:token>&b");
  EXPECT_EQ(
      redacted(R"({"password": "p1", 'token':'p2', "lr": 0.1, "secret":null})"),
      R"({"password": "<redacted:password>", 'token':'<redacted:token>', "lr": 0.1, "secret":null})");
  EXPECT_EQ(redacted(R"(PASSWORD='abc\' TOKEN='xyz')"),
            "PASSWORD='<redacted:PASSWORD>' TOKEN='<redacted:TOKEN>'");
  EXPECT_EQ(redacted(R"({"password": "ab\"cd\\", "lr": 0.1, "token": "open\)"),
            R"({"password": "<redacted:password>", "lr": 0.1, "token": "<redacted:token>)");
  EXPECT_EQ(redacted("HF_TOKEN=env:HF_TOKEN max_tokens=4096 the token: not found; token="),
            "HF_TOKEN=env:HF_TOKEN max_tokens=4096 the token: not found; token=");
}

// A metric may have such a name, and what train-run prints as JSON has to stay JSON.
TEST(Secrets, NumbersAndOtherJsonWithoutQuotesStayAsTheyAre) {
  for (const char* json : {R"({"token_loss":0.5,"secret":-1e-07})", R"({"token": true})",
                           R"([{"secret":false},{"secret":null}])", R"({"token":[0.5,2]})",
                           R"({"secret":{"loss":1}})"})
    EXPECT_EQ(redacted(json), json);

  EXPECT_EQ(redacted(R"({"token":"0.5"})"), R"({"token":"<redacted:token>"})");
  EXPECT_EQ(redacted("PASSWORD=12345678"), "PASSWORD=<redacted:PASSWORD>");
  EXPECT_EQ(redacted(R"({'password': 12ab})"), "{'password': <redacted:password>}");
}

TEST(Secrets, AValueInsideAJsonStringLeavesTheStringsQuotesWhole) {
  EXPECT_EQ(redacted(R"({"msg":"sh -c \"x password=abc\" failed"})"),
            R"({"msg":"sh -c \"x password=<redacted:password>\" failed"})");
  EXPECT_EQ(redacted(R"({"msg":"x password=\"a b\" failed"})"),
            R"({"msg":"x password=\"<redacted:password>\" failed"})");
  EXPECT_EQ(redacted(R"({"msg":"password=abc\\"})"), R"({"msg":"password=<redacted:password>"})");
  EXPECT_EQ(redacted(R"({"msg":"password=\""})"), R"({"msg":"password=\""})");
}

TEST(Secrets, HidingTwiceChangesNothing) {
  learn_secret("TWICE_TOKEN", "canary-twice");
  const std::string once = redacted("TWICE_TOKEN=canary-twice u://a:canary-twice@h 'token':'x'");

  EXPECT_EQ(redacted(once), once);
}

// Each byte moves once, so that a large text from others does not keep us busy.
TEST(Secrets, AreHiddenInALargeTextThatIsFullOfThem) {
  constexpr std::size_t kTimes = 300'000;
  learn_secret("LARGE_TOKEN", "canary-large");
  for (const std::string_view piece :
       {"u://a:b@h ", "x_token=q ", "canary-large ", "://@", "'':'"}) {
    std::string text;
    for (std::size_t i = 0; i < kTimes; ++i) text += piece;
    const std::string shown = redacted(text);
    const bool hides = piece.size() > 5;
    EXPECT_EQ(shown == text, !hides) << piece;
    EXPECT_EQ(shown.find(":b@"), std::string::npos);
    EXPECT_EQ(shown.find("=q"), std::string::npos);
    EXPECT_EQ(shown.find("canary-large"), std::string::npos);
  }
}

TEST(Secrets, OfManyThatAreEquallyLongEachIsHidden) {
  for (int i = 10; i < 60; ++i)
    learn_secret("TOKEN_" + std::to_string(i), "many-" + std::to_string(i) + "-alike");

  EXPECT_EQ(redacted("many-10-alikemany-59-alike, many-60-alike"),
            "<redacted:TOKEN_10><redacted:TOKEN_59>, many-60-alike");
  EXPECT_EQ(redacted("many-10-alik"), "many-10-alik");
}

TEST(Secrets, AreLearnedWhileOthersHide) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t] {
      for (int i = 0; i < 200; ++i) {
        const std::string value = "canary-" + std::to_string(t) + "-" + std::to_string(i) + "-x";
        learn_secret("THREAD_TOKEN", value);
        EXPECT_EQ(redacted(value), "<redacted:THREAD_TOKEN>");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace train
