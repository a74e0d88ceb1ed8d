#include <gtest/gtest.h>
#include <train/config.h>

#include <cmath>
#include <limits>

namespace train {
namespace {

std::string refusal_of(std::string_view text) {
  try {
    parse_json(text);
  } catch (const Failure& failure) {
    return failure.what();
  }
  return "accepted";
}

TEST(Json, WritesEveryKindOfValue) {
  const Value value(Dict{{"none", Value()},
                         {"yes", true},
                         {"int", -7},
                         {"whole", 1.0},
                         {"small", 1e-7},
                         {"text", "a\"\\\n\x01é"},
                         {"list", List{1, List{}, Dict{}}}});

  EXPECT_EQ(
      to_json(value),
      R"({"int":-7,"list":[1,[],{}],"none":null,"small":1e-07,"text":"a\"\\\n\u0001é","whole":1.0,"yes":true})");
}

TEST(Json, WritesNullForWhatJsonCannotSay) {
  const double infinity = std::numeric_limits<double>::infinity();

  EXPECT_EQ(to_json(List{std::nan(""), infinity, -infinity}), "[null,null,null]");
}

TEST(Json, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(to_json("a\xff"
                    "b\xed\xa0\x80\xc0\xaf"),
            "\"a\uFFFDb\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD\"");
}

TEST(Json, ReadsWhatItWrote) {
  const Value value(
      Dict{{"a", List{0.1, 1e300, 5e-324, std::numeric_limits<std::int64_t>::min(), 1.0, 1}},
           {"b", Dict{{"c", "\t\r\b\x7f 日本 \U0001F600"}}},
           {"d", List{true, false, Value()}}});

  EXPECT_EQ(parse_json(to_json(value)), value);
}

TEST(Json, ReadsEscapesAndSpace) {
  EXPECT_EQ(parse_json(" [ \"\\u0041\\u00e9\\ud83d\\ude00\\/\" , 1.5e+2 ,\n-0 ] "),
            Value(List{"Aé😀/", 150.0, 0}));
}

TEST(Json, ReadsIntegersBeyond64BitsAsFloats) {
  EXPECT_EQ(parse_json("18446744073709551616"), Value(18446744073709551616.0));
}

TEST(Json, ReadsTheNumbersThatPythonAddsToIt) {
  const double infinity = std::numeric_limits<double>::infinity();

  EXPECT_EQ(parse_json("[Infinity, -Infinity]"), Value(List{infinity, -infinity}));
  EXPECT_TRUE(std::isnan(parse_json("NaN").as<double>()));
  EXPECT_EQ(refusal_of("Nan"), "JSON, byte 0: a value is wanted here");
  EXPECT_EQ(refusal_of("-Inf"), "JSON, byte 1: a value is wanted here");
  EXPECT_EQ(refusal_of("-NaN"), "JSON, byte 0: a value is wanted here");
}

TEST(Json, RefusesWithTheOffsetOfTheMistake) {
  EXPECT_EQ(refusal_of(""), "JSON, byte 0: the text ends where a value is wanted");
  EXPECT_EQ(refusal_of("[1,]"), "JSON, byte 3: a value is wanted here");
  EXPECT_EQ(refusal_of("{\"a\":1,}"), "JSON, byte 7: a key in double quotes is wanted here");
  EXPECT_EQ(refusal_of("{\"a\":1,\"a\":2}"), "JSON, byte 7: a repeated key");
  EXPECT_EQ(refusal_of("{\"a\" 1}"), "JSON, byte 5: ':' is wanted here");
  EXPECT_EQ(refusal_of("[1 2]"), "JSON, byte 3: ',' or ']' is wanted here");
  EXPECT_EQ(refusal_of("01"), "JSON, byte 2: a number with a leading zero");
  EXPECT_EQ(refusal_of("1."), "JSON, byte 2: a digit is wanted here");
  EXPECT_EQ(refusal_of("1e999"), "JSON, byte 5: a number beyond the range of a float");
  EXPECT_EQ(refusal_of("nul"), "JSON, byte 0: a value is wanted here");
  EXPECT_EQ(refusal_of("1 x"), "JSON, byte 2: text after the end of the value");
  EXPECT_EQ(refusal_of("\"abc"), "JSON, byte 4: the text ends inside a string");
  EXPECT_EQ(refusal_of("\"a\\x\""), "JSON, byte 3: an unknown escape");
  EXPECT_EQ(refusal_of("\"\\ud800\""), "JSON, byte 7: half a surrogate pair");
  EXPECT_EQ(refusal_of("\"\\u12g4\""), "JSON, byte 3: four hex digits are wanted here");
  EXPECT_EQ(refusal_of("\"\xff\""), "JSON, byte 1: bytes that are not UTF-8");
  EXPECT_EQ(refusal_of("\"\n\""),
            "JSON, byte 1: a control character in a string; write it as an escape");
}

TEST(Json, RefusesTextThatIsNestedTooDeep) {
  EXPECT_EQ(refusal_of(std::string(100000, '[')), "JSON, byte 129: nested deeper than 128 levels");
}

}  // namespace
}  // namespace train
