#include "sdk/data/cursor.h"

#include <gtest/gtest.h>

namespace train::sdk {
namespace {

using data::FileRows;
using data::OrderSpec;
using data::Shuffle;

DatasetLayout layout_of_files(std::vector<FileRows> files) {
  DatasetLayout layout;
  for (const FileRows& file : files) {
    layout.units.unit_rows.push_back(file.rows);
    layout.units.file_units.push_back(1);
    layout.units.file_bytes.push_back(file.bytes);
  }
  layout.files = std::move(files);
  layout.digest = data::digest_of(layout.units);
  return layout;
}

const std::vector<FileRows> kFiles{{"a.parquet", 1, 10, 700}, {"b/c.parquet", 1, 20, 800}};
constexpr OrderSpec kOrder{
    .shuffle = Shuffle::Window, .seed = ~std::uint64_t{4}, .lanes = 16, .block_rows = 3};

Cursor cursor_of(const Value& value) {
  const auto cursor = read_cursor(value);
  EXPECT_TRUE(cursor.has_value()) << cursor.error().describe();
  EXPECT_TRUE(cursor->has_value());
  return **cursor;
}

Dict entry_of(Dict order) { return {{"epoch", 3}, {"rows", 640}, {"order", std::move(order)}}; }

std::string difference_from(const DatasetLayout& before, const DatasetLayout& now) {
  const Cursor cursor = cursor_of(entry_of(cursor_order(before, kOrder)));
  return difference(cursor, now, true, 0).value_or("none");
}

TEST(Cursor, ComesBackAsItWas) {
  const DatasetLayout layout = layout_of_files(kFiles);
  const Cursor cursor = cursor_of(parse_json(to_json(entry_of(cursor_order(layout, kOrder)))));

  EXPECT_EQ(cursor.epoch, 3U);
  EXPECT_EQ(cursor.rows_consumed, 640);
  EXPECT_EQ(cursor.order, kOrder);
  EXPECT_EQ(difference(cursor, layout, true, 0), std::nullopt);
}

// A checkpoint of today must be readable for ever.
TEST(Cursor, HasThisForm) {
  EXPECT_EQ(to_json(cursor_order(layout_of_files(kFiles), kOrder)),
            R"({"block_rows":3,"files":[["a.parquet",10,700],["b/c.parquet",20,800]],"lanes":16,)"
            R"("layout":"33807a767637a734","seed":-5,"shuffle":"window","version":2})");
}

TEST(Cursor, OfVersionOneHasNoOrder) {
  EXPECT_EQ(cursor_of(Dict{{"epoch", 3}, {"rows", 640}}).order, std::nullopt);
  const Cursor cursor = cursor_of(Dict{{"epoch", 3}, {"rows", 640}, {"order", "1f"}});
  EXPECT_EQ(cursor.order, std::nullopt);
  EXPECT_EQ(cursor.digest, "1f");
}

TEST(Cursor, IsNoneWhereUsersPutOtherThings) {
  for (const Value& other :
       {Value(7), Value(Dict{}), Value(Dict{{"epoch", 9}, {"rows", "many"}}),
        Value(Dict{{"epoch", 9}, {"rows", 3}, {"order", Dict{{"lanes", 3}}}}),
        Value(entry_of({{"version", 2}, {"shuffle", "none"}, {"lanes", "x"}}))}) {
    const auto cursor = read_cursor(other);
    ASSERT_TRUE(cursor.has_value());
    EXPECT_FALSE(cursor->has_value()) << to_json(other);
  }
}

TEST(Cursor, IsRefusedIfItsOrderCannotBe) {
  const Dict good = cursor_order(layout_of_files(kFiles), kOrder);
  const auto refusal = [&](const std::string& key, Value value) {
    Dict order = good;
    order[key] = std::move(value);
    const auto cursor = read_cursor(entry_of(order));
    return cursor.has_error() ? cursor.error().describe() : "none";
  };

  EXPECT_EQ(refusal("version", 3),
            "the checkpoint's position has version 3, and this program knows versions up to 2 "
            "(build the program with a newer SDK)");
  EXPECT_EQ(refusal("lanes", 0),
            "the checkpoint's position is in an order that cannot be (shuffle window, 0 lanes, "
            "blocks of 3 rows)");
  for (const auto& [key, value] : {std::pair<std::string, Value>{"lanes", std::int64_t{1} << 40},
                                   {"block_rows", -1},
                                   {"shuffle", "riffle"}})
    EXPECT_NE(refusal(key, value), "none") << key;
}

TEST(Cursor, TellsWhichFilesCameWentAndChanged) {
  const DatasetLayout before = layout_of_files(kFiles);
  EXPECT_EQ(difference_from(
                before, layout_of_files({{"a.parquet", 1, 11, 700}, {"b/d.parquet", 1, 20, 800}})),
            "new: b/d.parquet; gone: b/c.parquet; changed: a.parquet (11 rows, not 10)");
  EXPECT_EQ(difference_from(before, layout_of_files({{"a.parquet", 1, 10, 701}, kFiles[1]})),
            "changed: a.parquet (701 bytes, not 700)");
  EXPECT_EQ(difference_from(before, layout_of_files({kFiles[0]})), "gone: b/c.parquet");

  // Of objects, also what their store says of them.
  std::vector<FileRows> objects = kFiles;
  objects[0].version = "\"e1\"";
  const DatasetLayout first = layout_of_files(objects);
  EXPECT_EQ(to_json(cursor_order(first, kOrder)["files"]),
            R"([["a.parquet",10,700,"\"e1\""],["b/c.parquet",20,800]])");
  objects[0].version = "\"e2\"";
  DatasetLayout second = layout_of_files(objects);
  second.digest = "another";
  EXPECT_EQ(difference_from(first, second),
            "changed: a.parquet (replaced by another of the same size)");

  DatasetLayout other_units = before;
  other_units.units.unit_rows = {5, 25};
  other_units.digest = data::digest_of(other_units.units);
  EXPECT_EQ(difference_from(before, other_units),
            "its rows have other names, or lie in other units");
}

TEST(Cursor, NamesFiveFilesAndKeepsAThousand) {
  std::vector<FileRows> many(kCursorFilesMax, {"", 1, 1, 1});
  for (std::size_t i = 0; i < many.size(); ++i) many[i].path = std::to_string(i);
  const DatasetLayout before = layout_of_files(many);
  EXPECT_EQ(difference_from(before, layout_of_files({many[0]})),
            "gone: 1, 10, 100, 101, 102 and 994 more");

  many.push_back({"one more", 1, 1, 1});
  EXPECT_EQ(difference_from(layout_of_files(many), before),
            "the checkpoint has no list of its files, which are too many, or have names that are "
            "no UTF-8");
}

TEST(Cursor, ListsNoFilesThatACheckpointCouldNotHold) {
  const auto lists = [](std::vector<FileRows> files) {
    return cursor_order(layout_of_files(std::move(files)), kOrder).contains("files");
  };
  const std::string long_name(4000, 'x');

  EXPECT_TRUE(lists({{"größe", 1, 1, 1}}));
  EXPECT_FALSE(
      lists({{"gr\xf6\xdf"
              "e",
              1, 1, 1}}));
  EXPECT_TRUE(lists(std::vector<FileRows>(16, {long_name, 1, 1, 1})));
  EXPECT_FALSE(lists(std::vector<FileRows>(17, {long_name, 1, 1, 1})));
}

TEST(Cursor, NamesFilesBelowTheirCommonFolder) {
  class Source final : public data::RowSource {
   public:
    explicit Source(std::vector<FileRows> files) : files_(std::move(files)) {}
    const std::vector<std::int64_t>& unit_rows() const override { return rows_; }
    const std::vector<FileRows>& files() const override { return files_; }
    std::int64_t decoded_bytes() const override { return 1; }
    const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
    Result<std::unique_ptr<data::UnitStream>> open(std::int64_t, std::int64_t) const override {
      return Error{Errc::Internal, "not here"};
    }

   private:
    std::vector<FileRows> files_;
    std::vector<std::int64_t> rows_{30};
    std::shared_ptr<arrow::Schema> schema_;
  };
  const auto names = [](std::vector<FileRows> files) {
    std::vector<std::string> paths;
    for (const FileRows& file : layout_of(Source(std::move(files))).files)
      paths.push_back(file.path);
    return paths;
  };
  using Names = std::vector<std::string>;

  EXPECT_EQ(names({{"/d/one/a"}, {"/d/onetwo/b"}}), (Names{"one/a", "onetwo/b"}));
  EXPECT_EQ(names({{"/d/a"}}), Names{"a"});
  EXPECT_EQ(names({{"a"}, {"b"}}), (Names{"a", "b"}));
  EXPECT_EQ(names({}), Names{});
}

}  // namespace
}  // namespace train::sdk
