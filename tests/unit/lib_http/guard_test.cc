#include "lib/http/guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace train {
namespace {

using testing::HasSubstr;

constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

GuardRules rules() {
  return {.hosts = {"localhost", "127.0.0.1", "::1"}, .token = kToken, .cookie = "trainrun_7080"};
}

HttpRequest get(const std::string& target = "/api/v1/runs") {
  return {.target = parse_target(target).value(), .host = "127.0.0.1:7080"};
}

HttpRequest with_cookie(HttpRequest request) {
  request.cookie = std::string("trainrun_7080=") + kToken;
  return request;
}

HttpRequest post() {
  HttpRequest request = get("/api/v1/runs/x/stop");
  request.method = HttpMethod::Post;
  return request;
}

/// Return the status of the refusal, or 0 if the request is allowed.
int refused(const GuardRules& rules, const HttpRequest& request, bool open = false) {
  const auto answer = refuse_request(rules, request, open);
  return answer ? answer->status : 0;
}

TEST(HttpGuard, ReadingNeedsTheTokenAsCookieOrBearer) {
  EXPECT_EQ(refused(rules(), get()), 401);
  EXPECT_EQ(refused(rules(), with_cookie(get())), 0);
  HttpRequest program = get();
  program.authorization = std::string("Bearer ") + kToken;
  EXPECT_EQ(refused(rules(), program), 0);
}

TEST(HttpGuard, AWrongTokenIsNoToken) {
  for (const char* wrong :
       {"", "0", "0123456789abcdef0123456789abcdeX", "0123456789abcdef0123456789abcdef0"}) {
    HttpRequest request = get();
    request.cookie = std::string("trainrun_7080=") + wrong;
    EXPECT_EQ(refused(rules(), request), 401) << wrong;
    request = get();
    request.authorization = std::string("Bearer ") + wrong;
    EXPECT_EQ(refused(rules(), request), 401) << wrong;
  }
  GuardRules without = rules();
  without.token.clear();
  HttpRequest request = get();
  request.authorization = "Bearer ";
  EXPECT_EQ(refused(without, request), 401);
}

TEST(HttpGuard, OpenRoutesNeedNoTokenAndNeitherDoesReadingIfThatIsAllowed) {
  EXPECT_EQ(refused(rules(), get(), /*open=*/true), 0);
  GuardRules open_read = rules();
  open_read.open_read = true;
  EXPECT_EQ(refused(open_read, get()), 0);
  EXPECT_EQ(refused(open_read, post()), 401);
}

TEST(HttpGuard, AHostThatIsNotOursIsRefusedEvenWithTheToken) {
  for (const char* host : {"evil.example:7080", "127.0.0.1.evil.example", "", "localhost.", "[::2]",
                           "[::1", "127.0.0.1@evil.example"}) {
    HttpRequest request = with_cookie(get());
    request.host = host;
    EXPECT_EQ(refused(rules(), request), 403) << host;
    EXPECT_EQ(refused(rules(), request, /*open=*/true), 403) << host;
  }
  HttpRequest twice = with_cookie(get());
  twice.host_repeated = true;
  EXPECT_EQ(refused(rules(), twice), 403);
}

TEST(HttpGuard, OurHostsMayHaveAnyPort) {
  for (const char* host : {"localhost", "LOCALHOST:9000", "127.0.0.1:1", "[::1]:7080", "[::1]"}) {
    HttpRequest request = with_cookie(get());
    request.host = host;
    EXPECT_EQ(refused(rules(), request), 0) << host;
  }
}

TEST(HttpGuard, ChangesNeedActionsToBeAllowed) {
  HttpRequest request = with_cookie(post());
  request.origin = "http://127.0.0.1:7080";

  const auto answer = refuse_request(rules(), request, false);

  EXPECT_EQ(answer->status, 403);
  EXPECT_THAT(answer->body, HasSubstr("--allow-actions"));
}

class HttpGuardActions : public testing::Test {
 protected:
  HttpGuardActions() { rules_.allow_actions = true; }
  GuardRules rules_ = rules();
};

TEST_F(HttpGuardActions, OurPageMayChange) {
  HttpRequest request = with_cookie(post());
  request.origin = "http://127.0.0.1:7080";
  EXPECT_EQ(refused(rules_, request), 0);
  request.fetch_site = "same-origin";
  EXPECT_EQ(refused(rules_, request), 0);
}

TEST_F(HttpGuardActions, PagesOfOtherSitesMayNot) {
  for (const char* origin : {"", "null", "http://evil.example", "http://127.0.0.1:7081",
                             "https://127.0.0.1:7080", "http://localhost:7080"}) {
    HttpRequest request = with_cookie(post());
    request.origin = origin;
    EXPECT_EQ(refused(rules_, request), 403) << origin;
  }
  HttpRequest request = with_cookie(post());
  request.origin = "http://127.0.0.1:7080";
  request.fetch_site = "cross-site";
  EXPECT_EQ(refused(rules_, request), 403);
}

TEST_F(HttpGuardActions, AProgramWithTheTokenNeedsNoOrigin) {
  HttpRequest request = post();
  request.authorization = std::string("Bearer ") + kToken;
  EXPECT_EQ(refused(rules_, request), 0);
  HttpRequest open = post();
  EXPECT_EQ(refused(rules_, open, /*open=*/true), 401);
}

TEST_F(HttpGuardActions, ABodyMustBeJson) {
  HttpRequest request = with_cookie(post());
  request.origin = "http://127.0.0.1:7080";
  request.body = "a=1";
  request.content_type = "application/x-www-form-urlencoded";
  EXPECT_EQ(refused(rules_, request), 415);
  request.content_type = "application/json; charset=utf-8";
  EXPECT_EQ(refused(rules_, request), 0);
}

TEST(HttpGuard, TheLinkSetsTheCookieAndLeavesTheAddress) {
  const auto answer = take_token(rules(), get(std::string("/?token=") + kToken));

  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status, 303);
  using Headers = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(answer->headers, (Headers{{"Location", "/"},
                                      {"Cache-Control", "no-store"},
                                      {"Set-Cookie", std::string("trainrun_7080=") + kToken +
                                                         "; Path=/; HttpOnly; SameSite=Strict"}}));
}

TEST(HttpGuard, OverTlsTheCookieIsForTlsOnlyAndTheOriginIsHttps) {
  GuardRules secure = rules();
  secure.secure = true;
  secure.allow_actions = true;
  EXPECT_THAT(take_token(secure, get(std::string("/?token=") + kToken))->headers[2].second,
              testing::EndsWith("; Secure"));
  HttpRequest request = with_cookie(post());
  request.origin = "https://127.0.0.1:7080";
  EXPECT_EQ(refused(secure, request), 0);
}

TEST(HttpGuard, ALinkWithAWrongTokenSetsNothing) {
  EXPECT_EQ(take_token(rules(), get("/?token=1"))->status, 401);
  EXPECT_FALSE(take_token(rules(), get("/")).has_value());
  EXPECT_FALSE(take_token(rules(), get(std::string("/api/v1/runs?token=") + kToken)).has_value());
  HttpRequest elsewhere = get(std::string("/?token=") + kToken);
  elsewhere.host = "evil.example";
  EXPECT_EQ(take_token(rules(), elsewhere)->status, 403);
}

}  // namespace
}  // namespace train
