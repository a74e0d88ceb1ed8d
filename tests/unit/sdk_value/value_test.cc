#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <train/config.h>

#include <limits>

namespace train {
namespace {

using testing::ElementsAre;

template <class F>
std::string failure_of(F&& f) {
  try {
    f();
  } catch (const Failure& failure) {
    return failure.kind() + ": " + failure.what();
  }
  return "no failure";
}

TEST(Value, ConvertsBetweenNumbersWithoutLoss) {
  EXPECT_EQ(Value(7).as<double>(), 7.0);
  EXPECT_EQ(Value(1e3).as<int>(), 1000);
  EXPECT_EQ(Value(-0x1p63).as<std::int64_t>(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(Value(255).as<std::uint8_t>(), 255);
  EXPECT_EQ(Value(0.1).as<float>(), 0.1F);
}

TEST(Value, NamesFoundAndWantedWhenItDoesNotConvert) {
  EXPECT_EQ(failure_of([] { Value("abc").as<int>(); }),
            "invalid_argument: found the string \"abc\", wanted an integer");
  EXPECT_EQ(failure_of([] { Value(1.5).as<int>(); }),
            "invalid_argument: found the float 1.5, wanted an integer");
  EXPECT_EQ(failure_of([] { Value(1e19).as<std::uint64_t>(); }),
            "invalid_argument: found the float 1e+19, wanted an integer");
  EXPECT_EQ(failure_of([] { Value(std::numeric_limits<double>::quiet_NaN()).as<int>(); }),
            "invalid_argument: found the float nan, wanted an integer");
  EXPECT_EQ(failure_of([] { Value(300).as<std::uint8_t>(); }),
            "invalid_argument: found the integer 300, wanted an integer from 0 to 255");
  EXPECT_EQ(
      failure_of([] { Value(-1).as<std::uint64_t>(); }),
      "invalid_argument: found the integer -1, wanted an integer from 0 to 18446744073709551615");
  EXPECT_EQ(failure_of([] { Value(1).as<bool>(); }),
            "invalid_argument: found the integer 1, wanted a bool");
  EXPECT_EQ(failure_of([] { Value(true).as<double>(); }),
            "invalid_argument: found the bool true, wanted a number");
  EXPECT_EQ(failure_of([] {
              Value(List{1, 2}).as<std::string>();
            }),
            "invalid_argument: found a list of 2, wanted a string");
  EXPECT_EQ(failure_of([] { Value().as<List>(); }), "invalid_argument: found null, wanted a list");
  EXPECT_EQ(failure_of([] {
              Value(List{1, "b"}).as<std::vector<int>>();
            }),
            "invalid_argument: found the string \"b\", wanted an integer");
}

TEST(Value, RefusesAnIntegerThatItWouldChange) {
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();

  EXPECT_EQ(Value(kMax).as<std::uint64_t>(), kMax);
  EXPECT_EQ(Value(std::numeric_limits<std::uint32_t>::max()).as<std::int64_t>(), 4294967295);
  EXPECT_EQ(failure_of([] { Value{kMax + 1}; }),
            "invalid_argument: the integer 9223372036854775808 is more than 9223372036854775807, "
            "the largest that a Value holds (make it a string, or convert it to std::int64_t)");
  EXPECT_EQ(Value(std::numeric_limits<std::int64_t>::min()).as<std::int64_t>(),
            std::numeric_limits<std::int64_t>::min());
}

TEST(Value, TakesNothingElseForABool) {
  enum Colour { kRed };
  static_assert(!std::is_convertible_v<int*, Value> && !std::is_convertible_v<float*, Value>);
  static_assert(!std::is_convertible_v<const void*, Value>);
  static_assert(!std::is_convertible_v<Colour, Value>);
  std::vector<bool> flags{true, false};
  const std::vector<bool> same = flags;

  EXPECT_EQ(Value(Dict{{"first", flags[0]}, {"second", same[1]}}),
            Value(Dict{{"first", true}, {"second", false}}));
}

TEST(Value, ConvertsListsOfLists) {
  const Value value(List{List{1, 2}, List{3}});

  EXPECT_THAT(value.as<std::vector<std::vector<double>>>(),
              ElementsAre(ElementsAre(1, 2), ElementsAre(3)));
}

TEST(Config, ReadsTypedNestedAndDefaultedKeys) {
  const Config config(Dict{{"lr", 0.1},
                           {"epochs", 3},
                           {"optimizer", Dict{{"name", "adam"}, {"betas", List{0.9, 0.999}}}},
                           {"a.b", 1},
                           {"empty", Value()}});

  EXPECT_EQ(config.get<double>("lr"), 0.1);
  EXPECT_EQ(config.get<int>("epochs", 10), 3);
  EXPECT_EQ(config.get<int>("absent", 10), 10);
  EXPECT_EQ(config.get<int>("empty", 10), 10);
  EXPECT_EQ(config.get<std::string>("optimizer.name"), "adam");
  EXPECT_THAT(config.get<std::vector<double>>("optimizer.betas"), ElementsAre(0.9, 0.999));
  EXPECT_EQ(config.get<int>("a.b"), 1);
  for (const char* key : {"lr", "empty", "optimizer", "optimizer.name", "a.b"})
    EXPECT_TRUE(config.contains(key)) << key;
  for (const char* key : {"", "optimizer.lr", "optimizer.name.x", "a", "lr.x"})
    EXPECT_FALSE(config.contains(key)) << key;
}

TEST(Config, NamesTheKeyThatIsMissingOrOfAnotherType) {
  const Config config(Dict{{"lr", "fast"}, {"epochs", 3}});

  EXPECT_EQ(failure_of([&] { config.get<int>("epoch"); }),
            "not_found: train_loop_config has no 'epoch', only 'epochs', 'lr' (add it to the job's "
            "YAML, or give get() a default)");
  EXPECT_EQ(failure_of([&] { config.get<double>("lr", 0.5); }),
            "invalid_argument: train_loop_config 'lr': found the string \"fast\", wanted a number");
  EXPECT_EQ(failure_of([&] { config.get<int>("epochs.x"); }),
            "not_found: train_loop_config has no 'epochs.x', only 'epochs', 'lr' (add it to the "
            "job's YAML, or give get() a default)");
  EXPECT_EQ(failure_of([] { Config().get<int>("x"); }),
            "not_found: train_loop_config has no 'x', only nothing (add it to the job's YAML, or "
            "give get() a default)");
}

}  // namespace
}  // namespace train
