#include "lib/data/formats/text_units.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/data/formats/numpy_header.h"

namespace train::data {

void PrintTo(const TextUnit& unit, std::ostream* out) {
  *out << unit.offset << "+" << unit.length << ": " << unit.rows;
}

namespace {

using testing::ElementsAre;
using Lines = TextUnits::Lines;

std::vector<TextUnit> units_of(Lines lines, std::int64_t unit_bytes, std::string_view text,
                               std::size_t piece) {
  TextUnits units(lines, unit_bytes);
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size())))
    EXPECT_TRUE(units.add(text.substr(0, piece)).has_value());
  auto found = units.finish();
  EXPECT_TRUE(found.has_value()) << found.error().describe();
  return *found;
}

std::string refusal_of(Lines lines, std::string_view text) {
  TextUnits units(lines, 1000);
  for (const char c : text) {
    const auto added = units.add({&c, 1});
    if (added.has_error()) return added.error().describe();
  }
  const auto found = units.finish();
  return found.has_error() ? found.error().describe() : "nothing is wrong";
}

TEST(TextUnits, EndAtALineWhateverThePieces) {
  for (const std::size_t piece : {1U, 2U, 3U, 100U}) {
    EXPECT_THAT(units_of(Lines::Plain, 4, "aa\nbb\ncc\nd", piece),
                ElementsAre(TextUnit{0, 6, 2}, TextUnit{6, 4, 2}))
        << piece;
  }
  EXPECT_THAT(units_of(Lines::Plain, 4, "", 1), ElementsAre());
}

TEST(TextUnits, CountLinesThatAreNotBlank) {
  for (const std::size_t piece : {1U, 100U}) {
    EXPECT_THAT(units_of(Lines::Plain, 100, "\na\r\n\r\n \nb\n\n", piece),
                ElementsAre(TextUnit{0, 11, 3}));
    EXPECT_THAT(units_of(Lines::Json, 100, "\n{}\r\n \t\r\n{}\n\n", piece),
                ElementsAre(TextUnit{0, 13, 2}));
  }
}

TEST(TextUnits, KeepQuotedLinesTogether) {
  const std::string_view text = "a,\"x\n\n\"\"y\"\nb,\"\"\n";
  for (const std::size_t piece : {1U, 4U, 100U}) {
    EXPECT_THAT(units_of(Lines::Quoted, 1, text, piece),
                ElementsAre(TextUnit{0, 11, 1}, TextUnit{11, 5, 1}))
        << piece;
  }
}

TEST(TextUnits, OpenAQuoteOnlyAtTheBeginningOfAValue) {
  for (const std::string_view text :
       {"1,5\" x\n2,6\" y\n", "1,\"a\"b\"c\n2,d\"\n", "\"a\n\",b\n1,\"\"\n"}) {
    const auto units = units_of(Lines::Quoted, 100, text, 1);
    EXPECT_EQ(units.front().rows, 2) << text;
  }
}

TEST(TextUnits, RefuseLinesThatAreNotOneObject) {
  const std::string line =
      "the line from byte 9 on is not one JSON object (write one object a line)";
  for (const std::string bad : {"null", "1", "[]", "{\"a\":1}{", "{} x", "{\"a\":\n1}", "{", "}"})
    EXPECT_EQ(refusal_of(Lines::Json, "{\"a\": 1}\n" + bad), line) << bad;
  EXPECT_EQ(refusal_of(Lines::Json, "\xEF\xBB\xBF{\"a\": \"}]\\\"{\", \"b\": [[{}]]} \r\n"),
            "nothing is wrong");
  EXPECT_EQ(refusal_of(Lines::Json, "{\"a\": " + std::string(100, '[')),
            "the line from byte 0 on is nested deeper than 100");
}

TEST(TextUnits, RefuseALineThatIsTooLong) {
  TextUnits units(Lines::Quoted, 1);
  const std::string piece(64 << 20, 'x');
  std::string refusal;
  ASSERT_TRUE(units.add("ok\n\"").has_value());
  for (int i = 0; i < 17 && refusal.empty(); ++i) {
    const auto added = units.add(piece);
    if (added.has_error()) refusal = added.error().describe();
  }

  EXPECT_EQ(refusal,
            "from byte 3 on, it has more than 1024 MiB that cannot be divided (a quote is not "
            "closed there, or the file needs shorter lines)");
}

TEST(NumpyHeader, ReadsKeysInAnyOrderAndBothQuotes) {
  const std::string dict = "{\"shape\": (2, 3,), 'fortran_order': False, 'descr': \"<f4\"}   \n";
  std::string bytes("\x93NUMPY\x02\x00", 8);
  bytes += static_cast<char>(dict.size());
  bytes += std::string(3, '\0') + dict;
  const auto header = read_numpy_header(bytes);

  ASSERT_TRUE(header.has_value()) << header.error().describe();
  EXPECT_EQ(header->type, "<f4");
  EXPECT_THAT(header->shape, ElementsAre(2, 3));
  EXPECT_EQ(header->values_at, static_cast<std::int64_t>(bytes.size()));
}

TEST(NumpyHeader, RefusesEachDamagedHeader) {
  const auto refused = [](const std::string& dict) {
    std::string bytes("\x93NUMPY\x01\x00", 8);
    bytes += static_cast<char>(dict.size());
    bytes += '\0' + dict;
    const auto header = read_numpy_header(bytes);
    return header.has_error() ? header.error().describe() : "it was read";
  };
  const std::string fine = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}";
  EXPECT_EQ(refused(fine), "it was read");
  for (std::size_t length = 0; length < fine.size(); ++length)
    EXPECT_THAT(refused(fine.substr(0, length)), testing::StartsWith("it is not a NumPy file: "))
        << length;
  for (const std::string dict :
       {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} x", "{}"})
    EXPECT_THAT(refused(dict), testing::StartsWith("it is not a NumPy file: ")) << dict;
  EXPECT_THAT(refused("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}"),
              testing::HasSubstr("its type is structured"));
  EXPECT_THAT(
      read_numpy_header(std::string_view("\x93NUMPY\x01\x00\xff\xff{}", 12)).error().describe(),
      testing::HasSubstr("its header is cut, or too long"));
}

}  // namespace
}  // namespace train::data
