#include "lib/http/response.h"

#include <gtest/gtest.h>

namespace train {
namespace {

TEST(HttpResponse, AProblemSaysWhatWhyAndWhatToDo) {
  const HttpResponse answer = problem({Errc::NotFound, "no run has the id \"x\"", "see /runs"});

  EXPECT_EQ(answer.status, 404);
  EXPECT_EQ(answer.content_type, "application/json");
  EXPECT_EQ(
      answer.body,
      R"({"error":{"code":"not_found","message":"no run has the id \"x\"","hint":"see /runs"}})");
}

TEST(HttpResponse, AProblemWithoutAHintHasNone) {
  EXPECT_EQ(problem(405, {Errc::InvalidArgument, "no"}).body,
            R"({"error":{"code":"invalid_argument","message":"no","hint":null}})");
}

TEST(HttpResponse, TheClientsCopyIsFoundAmongSeveral) {
  EXPECT_TRUE(etag_matches(R"("a")", R"("a")"));
  EXPECT_TRUE(etag_matches(R"("b", W/"a")", R"("a")"));
  EXPECT_TRUE(etag_matches("*", R"("a")"));
  EXPECT_FALSE(etag_matches("", R"("a")"));
  EXPECT_FALSE(etag_matches(R"("ab")", R"("a")"));
}

}  // namespace
}  // namespace train
