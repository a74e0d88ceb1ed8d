#include "lib/flight/pickle.h"

#include <gtest/gtest.h>

#include <string>

namespace train {
namespace {

using namespace std::string_literals;

std::string error_of(const std::string& bytes) {
  const auto read = Pickle::read(bytes);
  return read ? "none" : read.error().message;
}

TEST(Pickle, ReadsPlainValues) {
  // pickle.dumps({"a": [1, 300, -2, 1 << 40, -1 << 40], "b": (True, None, 0.5, "ä")}, protocol=2)
  const std::string bytes =
      "\x80\x02}q\x00(X\x01\x00\x00\x00\x61q\x01]q\x02(K\x01M,\x01J\xfe\xff\xff\xff\x8a\x06\x00\x00"
      "\x00\x00\x00\x01\x8a\x06\x00\x00\x00\x00\x00\xff\x65X\x01\x00\x00\x00\x62q\x03("
      "\x88NG?\xe0\x00\x00\x00\x00\x00\x00X\x02\x00\x00\x00\xc3\xa4q\x04tq\x05u."s;

  const auto read = Pickle::read(bytes);

  ASSERT_TRUE(read) << read.error().message;
  const auto a = read->find(read->root(), "a"), b = read->find(read->root(), "b");
  ASSERT_TRUE(a && b);
  std::vector<std::int64_t> numbers;
  for (const auto item : read->items(*a)) numbers.push_back(read->integer(item).value());
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{1, 300, -2, 1LL << 40, -(1LL << 40)}));
  ASSERT_EQ(read->items(*b).size(), 4U);
  EXPECT_TRUE(read->is_true(read->items(*b)[0]));
  EXPECT_EQ(read->kind(read->items(*b)[1]), Pickle::Kind::None);
  EXPECT_EQ(read->kind(read->items(*b)[2]), Pickle::Kind::Real);
  EXPECT_EQ(read->text(read->items(*b)[3]), "ä");
  EXPECT_FALSE(read->find(read->root(), "c"));
  EXPECT_FALSE(read->find(*a, "a"));
}

TEST(Pickle, RunsNothing) {
  // os.system("x"), as an object that is unpickled by a call
  EXPECT_EQ(error_of("\x80\x02"s + "cos\nsystem\nX\x01\x00\x00\x00x\x85R."s),
            "byte 3 of a pickle: instruction 0x63 is not one of plain data");
  for (const char code : "cRbioPQ\x81\x82\x83\x84\x92\x93"s)
    EXPECT_NE(error_of("\x80\x02}}"s + code + "os\nsystem\n."s).find("plain data"),
              std::string::npos);
}

TEST(Pickle, RefusesWhatIsDamaged) {
  const std::string whole = "\x80\x02}q\x00X\x01\x00\x00\x00\x61](K\x01K\x02\x65s."s;
  EXPECT_EQ(error_of(whole), "none");
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(error_of(whole.substr(0, size)), "none") << size;
  for (const std::string& bytes :
       {"."s, "e."s, "]u."s, "](K\x01u."s, "}(K\x01u."s, "h\x07."s, "K\x01(\x30."s, "a."s, "\x86."s,
        "X\xff\xff\xff\xff."s, "\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01."s, "(.e"s, ""s})
    EXPECT_NE(error_of(bytes), "none") << bytes;
}

TEST(Pickle, IsBounded) {
  EXPECT_NE(error_of(std::string(kPickleBytesMax + 1, 'N')), "none");
  EXPECT_NE(error_of(std::string(kPickleValuesMax + 1, 'N') + "."), "none");
  // A list that contains itself, and lists of lists that double at each step, cost what they have
  // as bytes.
  std::string bytes = "]q\x00h\x00\x61"s;
  for (int i = 0; i < 10'000; ++i) bytes += "]q\x01(h\x00h\x00h\x00\x65"s;
  EXPECT_EQ(error_of(bytes + "."), "none");
  // Of a long dict, which others may refer to, only the first keys are searched.
  std::string many = "}("s;
  for (std::size_t i = 0; i < kPickleKeysMax; ++i) many += "X\x01\x00\x00\x00\x61K\x01"s;
  many += "X\x01\x00\x00\x00\x62K\x02u."s;
  const auto dict = Pickle::read(many);
  ASSERT_TRUE(dict);
  EXPECT_TRUE(dict->find(dict->root(), "a"));
  EXPECT_FALSE(dict->find(dict->root(), "b"));
}

}  // namespace
}  // namespace train
