#include "lib/yaml/scalar.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "lib/yaml/nearest.h"
#include "lib/yaml/writer.h"

namespace train::yaml {
namespace {

TEST(Scalar, KnowsNoYaml11Surprises) {
  for (const char* text : {"no", "yes", "on", "off", "y", "N", "NO"})
    EXPECT_EQ(core_bool(text), std::nullopt) << text;
  EXPECT_EQ(core_integer("012")->as_int64(), 12);
  EXPECT_EQ(core_integer("0o14")->as_int64(), 12);
  EXPECT_EQ(core_integer("0xff")->as_int64(), 255);
  EXPECT_FALSE(core_integer("1_000").has_value());
  EXPECT_FALSE(core_integer("0b11").has_value());
  EXPECT_FALSE(core_integer("2026-11-21").has_value());
  EXPECT_FALSE(core_integer("12:30:00").has_value());
}

TEST(Scalar, ReadsIntegersToTheEndsOfTheirRange) {
  EXPECT_EQ(core_integer("9223372036854775807")->as_int64(),
            std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(core_integer("-9223372036854775808")->as_int64(),
            std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(core_integer("9223372036854775808")->as_int64(), std::nullopt);
  EXPECT_EQ(core_integer("18446744073709551615")->magnitude,
            std::numeric_limits<std::uint64_t>::max());
  EXPECT_TRUE(core_integer("18446744073709551616")->too_large);
  for (const char* text : {"", "+", "-", "--1", "0x", "0o8", "1.0", "1e3", "a", "+-1"})
    EXPECT_FALSE(core_integer(text).has_value()) << text;
}

TEST(Scalar, ReadsFloatsOfTheCoreSchema) {
  EXPECT_EQ(core_number("1e-3"), 0.001);
  EXPECT_EQ(core_number("1.0e-3"), 0.001);
  EXPECT_EQ(core_number("-.5"), -0.5);
  EXPECT_EQ(core_number("+5."), 5.0);
  EXPECT_EQ(core_number("7"), 7.0);
  EXPECT_EQ(core_number("-.inf"), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(*core_number(".nan")));
  for (const char* text : {"", ".", "e3", "1e", "1.2.3", "nan", "inf", "0x1p3", "1 "})
    EXPECT_EQ(core_number(text), std::nullopt) << text;
}

TEST(Scalar, TakesANumberThatIsTooSmallForADoubleForZero) {
  const std::string zeros(400, '0');
  for (const std::string& text :
       {std::string("1e-400"), "0." + zeros + "1", "1" + zeros + "e-900", "0." + zeros + "1e+9",
        std::string("1e-99999999999999999999"), std::string("1e-9223372036854775807")})
    EXPECT_EQ(core_number(text), 0.0) << text;
  EXPECT_TRUE(std::signbit(*core_number("-1e-400")));
  EXPECT_EQ(core_number("5e-324"), std::numeric_limits<double>::denorm_min());

  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const std::string& text :
       {std::string("1e400"), "1" + zeros + ".0", "1" + zeros + "e-9", "0." + zeros + "1e900",
        std::string("1e99999999999999999999"), std::string("1e9223372036854775807")})
    EXPECT_EQ(core_number(text), kInfinity) << text;
  EXPECT_EQ(core_number("-1e400"), -kInfinity);
}

TEST(Scalar, ReadsDurationsExactly) {
  EXPECT_EQ(parse_duration("500ms"), milliseconds(500));
  EXPECT_EQ(parse_duration("30s"), seconds(30));
  EXPECT_EQ(parse_duration("5m"), std::chrono::minutes(5));
  EXPECT_EQ(parse_duration("2h"), std::chrono::hours(2));
  EXPECT_EQ(parse_duration("1.5d"), std::chrono::hours(36));
  EXPECT_EQ(parse_duration("0.1s"), milliseconds(100));
  EXPECT_EQ(parse_duration("0s"), milliseconds(0));
  for (const char* text : {"", "30", "s", "-1s", "1.s", ".5s", "0.5ms", "1 s", "30S", "1h30m",
                           "99999999999d", "1e3s"}) {
    EXPECT_EQ(parse_duration(text), std::nullopt) << text;
  }
}

TEST(Scalar, WritesDurationsThatReadBack) {
  for (const Duration duration :
       {Duration(milliseconds(0)), Duration(milliseconds(1500)), Duration(seconds(90)),
        Duration(seconds(3600)), Duration(std::chrono::hours(72))}) {
    EXPECT_EQ(parse_duration(format_duration_yaml(duration)), duration);
  }
  EXPECT_EQ(format_duration_yaml(seconds(90)), "90s");
  EXPECT_EQ(format_duration_yaml(seconds(120)), "2m");
}

TEST(Scalar, ReadsSizesExactly) {
  EXPECT_EQ(parse_size("512MiB"), 512ull << 20);
  EXPECT_EQ(parse_size("16GiB"), 16ull << 30);
  EXPECT_EQ(parse_size("1GB"), 1'000'000'000u);
  EXPECT_EQ(parse_size("1.5GiB"), 1536ull << 20);
  EXPECT_EQ(parse_size("100"), 100u);
  EXPECT_EQ(parse_size("7B"), 7u);
  for (const char* text : {"", "GiB", "1 GiB", "1gib", "-1", "0.3B", "9999999TiB", "1e3"})
    EXPECT_EQ(parse_size(text), std::nullopt) << text;
}

TEST(Scalar, WritesSizesAndNumbersThatReadBack) {
  for (const std::uint64_t bytes : {0ull, 1ull, 1023ull, 1024ull, 16ull << 30, (1ull << 40) + 1})
    EXPECT_EQ(parse_size(format_size_yaml(bytes)), bytes);
  for (const double number : {0.0, 10.0, 0.001, 1e22, 1.0 / 3, -2.5e-300}) {
    EXPECT_EQ(core_number(format_number_yaml(number)), number);
    EXPECT_FALSE(core_integer(format_number_yaml(number)).has_value()) << "must stay a float";
  }
}

TEST(Nearest, FindsWhatWasMeant) {
  constexpr std::array<std::string_view, 4> kKeys{"num_workers", "use_gpu", "resources_per_worker",
                                                  "placement_strategy"};

  EXPECT_EQ(nearest("num_worker", kKeys), "num_workers");
  EXPECT_EQ(nearest("nmu_workers", kKeys), "num_workers");
  EXPECT_EQ(nearest("workers", kKeys), "num_workers");
  EXPECT_EQ(nearest("USE_GPU", kKeys), "use_gpu");
  EXPECT_EQ(nearest("replicas", kKeys), "");
  EXPECT_EQ(nearest("", kKeys), "");
  EXPECT_EQ(edit_distance("ab", "ba"), 1);
}

TEST(Writer, QuotesWhateverWouldReadAsSomethingElse) {
  EXPECT_EQ(write_text("./train"), "./train");
  EXPECT_EQ(write_text("--lr=0.1"), "--lr=0.1");
  EXPECT_EQ(write_text("/nfs/runs"), "/nfs/runs");
  EXPECT_EQ(write_text("30s"), "30s");
  EXPECT_EQ(write_text("0xab"), "\"0xab\"");
  EXPECT_EQ(write_text("2026-11-21"), "\"2026-11-21\"");
  EXPECT_EQ(write_text(""), "\"\"");
  EXPECT_EQ(write_text("012"), "\"012\"");
  EXPECT_EQ(write_text("true"), "\"true\"");
  EXPECT_EQ(write_text("no"), "\"no\"");
  EXPECT_EQ(write_text("null"), "\"null\"");
  EXPECT_EQ(write_text("- a"), "\"- a\"");
  EXPECT_EQ(write_text("a: b # c"), "\"a: b # c\"");
  EXPECT_EQ(write_text("a\"\\\n\x01"), "\"a\\\"\\\\\\n\\x01\"");
}

}  // namespace
}  // namespace train::yaml
