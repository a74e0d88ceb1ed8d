#include "lib/http/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace train {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

TEST(HttpRequest, ATargetIsSplitAndDecoded) {
  const auto target = parse_target("/api/v1/runs/a%20b~1?q=x+y%26z&empty=&flag&q=2").value();

  EXPECT_THAT(target.path, ElementsAre("api", "v1", "runs", "a b~1"));
  EXPECT_THAT(target.query.parameters(),
              ElementsAre(Pair("q", "x y&z"), Pair("empty", ""), Pair("flag", ""), Pair("q", "2")));
  EXPECT_EQ(target.query.text("q"), "x y&z");
  EXPECT_THAT(target.query.all("q"), ElementsAre("x y&z", "2"));
  EXPECT_EQ(target.query.text("missing"), "");
}

TEST(HttpRequest, TheRootHasNoParts) {
  EXPECT_THAT(parse_target("/").value().path, IsEmpty());
  EXPECT_THAT(parse_target("/?token=1").value().path, IsEmpty());
  EXPECT_THAT(parse_target("/runs/").value().path, ElementsAre("runs"));
}

TEST(HttpRequest, APathThatLeadsUpwardsIsRefusedHoweverItIsWritten) {
  for (const char* target : {"/..", "/../etc/passwd", "/a/../b", "/%2e%2e/x", "/%2E./x", "/.%2e",
                             "/./x", "/%2e", "/a%2fb", "/a%2Fb", "/a%5cb", "/a\\b", "//x", "/a//b"})
    EXPECT_FALSE(parse_target(target).has_value()) << target;
}

TEST(HttpRequest, WhatIsNoTextIsRefused) {
  for (const char* target : {"/a%00b", "/a%0ab", "/?q=%0d%0a", "/%ff", "/?q=%c3", "/a\x01", "/%7f",
                             "/%zz", "/%1", "/%", "/?a=%", "*", "", "http://x/y", "a/b"})
    EXPECT_FALSE(parse_target(target).has_value()) << target;
}

TEST(HttpRequest, LengthsAreLimited) {
  EXPECT_TRUE(parse_target("/" + std::string(kTargetBytesMax - 1, 'a')).has_value());
  EXPECT_FALSE(parse_target("/" + std::string(kTargetBytesMax, 'a')).has_value());
  std::string many = "/?";
  for (std::size_t i = 0; i < kQueryParametersMax; ++i) many += "a&";
  EXPECT_TRUE(parse_target(many).has_value());
  EXPECT_FALSE(parse_target(many + "a").has_value());
}

TEST(HttpRequest, NumbersOfAQueryAreWholeAndWithinTheirLimits) {
  const HttpQuery query(
      {{"a", "5"}, {"b", "5x"}, {"c", ""}, {"d", "99999999999999999999"}, {"e", "-1"}});

  EXPECT_EQ(query.whole("a", 1, 0, 9).value(), 5);
  EXPECT_EQ(query.whole("missing", 1, 2, 9).value(), 1);
  EXPECT_EQ(query.whole("a", 1, 0, 4).error().message, "a=5 must be a whole number from 0 to 4");
  for (const char* name : {"b", "c", "d", "e"})
    EXPECT_FALSE(query.whole(name, 1, 0, 9).has_value()) << name;
}

TEST(HttpRequest, OtherNumbersOfAQueryAreFinite) {
  const HttpQuery query({{"a", "1.5e3"}, {"b", "nan"}, {"c", "inf"}, {"d", "1,5"}});

  EXPECT_EQ(query.number("a").value(), 1500.0);
  EXPECT_EQ(query.number("missing").value(), std::nullopt);
  for (const char* name : {"b", "c", "d"}) EXPECT_FALSE(query.number(name).has_value()) << name;
}

TEST(HttpRequest, ACookieIsFoundByItsWholeName) {
  EXPECT_EQ(cookie_value("a=1; token=x=y; xtoken=3", "token"), "x=y");
  EXPECT_EQ(cookie_value("xtoken=3", "token"), "");
  EXPECT_EQ(cookie_value("token", "token"), "");
  EXPECT_EQ(cookie_value("", "token"), "");
}

}  // namespace
}  // namespace train
