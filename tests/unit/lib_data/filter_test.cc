#include <arrow/compute/initialize.h>
#include <gmock/gmock.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>

#include <cmath>
#include <random>

#include "lib/data/dataset_files.h"
#include "tests/unit/lib_data/parquet_files.h"

namespace train::data {
namespace {

using testing::ElementsAre;
using Ids = std::vector<std::int64_t>;

class Filter : public testing::Test {
 protected:
  void SetUp() override { must(arrow::compute::Initialize()); }

  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return folder_ / name;
  }

  /// Return the column `id` of the rows that pass the filter, or the error.
  static std::variant<Ids, std::string> kept(const FilesSpec& spec) {
    const auto source = open_files(spec);
    if (source.has_error()) return source.error().describe();
    Ids ids;
    for (std::size_t unit = 0; unit < (*source)->unit_rows().size(); ++unit) {
      if ((*source)->unit_rows()[unit] == 0) continue;  // nobody reads it
      const auto rows = (*source)->read(static_cast<std::int64_t>(unit));
      if (rows.has_error()) return rows.error().describe();
      EXPECT_EQ((*rows)->num_rows(), (*source)->unit_rows()[unit]);
      const Ids more = ids_of(**rows);
      ids.insert(ids.end(), more.begin(), more.end());
    }
    return ids;
  }
  std::variant<Ids, std::string> kept(const std::string& filter) const {
    return kept(FilesSpec{.paths = {folder_.path()}, .filter = filter});
  }

  TestFolder folder_;
};

TEST_F(Filter, KeepsTheRowsForWhichItIsTrue) {
  write("a.csv",
        "id,city,kept,price\n"
        "0,Bonn,true,1.5\n"
        "1,Ulm,false,\n"
        "2,,true,2.5\n"
        "3,Köln,,3.5\n");

  EXPECT_EQ(kept("id >= 1 and id != 2"), (std::variant<Ids, std::string>(Ids{1, 3})));
  EXPECT_EQ(kept("city == 'Köln' or city = 'Bonn'"), (std::variant<Ids, std::string>(Ids{0, 3})));
  EXPECT_EQ(kept("kept"), (std::variant<Ids, std::string>(Ids{0, 2})));
  EXPECT_EQ(kept("not kept"), (std::variant<Ids, std::string>(Ids{1})));
  EXPECT_EQ(kept("price is null"), (std::variant<Ids, std::string>(Ids{1})));
  EXPECT_EQ(kept("price < 3 and id < 2.5"), (std::variant<Ids, std::string>(Ids{0, 2})));
  EXPECT_EQ(kept("id in [3, 0, 77]"), (std::variant<Ids, std::string>(Ids{0, 3})));
  EXPECT_EQ(kept("price not in [1.5, 9.5]"), (std::variant<Ids, std::string>(Ids{2, 3})))
      << "a missing value is neither in the list nor out of it";
  EXPECT_EQ(kept("1 < 2"), (std::variant<Ids, std::string>(Ids{0, 1, 2, 3})));
  EXPECT_EQ(kept("id < 0"), (std::variant<Ids, std::string>(Ids{})));
}

TEST_F(Filter, MayHaveAThousandComparisons) {
  write("a.csv", "id\n0\n1\n2\n");
  std::string filter = "id == 1";
  for (int i = 1; i < 1000; ++i) filter += i % 2 == 0 ? " or id == 1" : " or id == 5";

  EXPECT_EQ(kept(filter), (std::variant<Ids, std::string>(Ids{1})));
}

TEST_F(Filter, CountsEachRowGroupAndReadsItInPieces) {
  write_parquet(folder_ / "1.parquet", numbered_rows(0, 100), 30);
  const auto source = open_files(
      {.paths = {folder_.path()}, .columns = {"name"}, .filter = "id >= 25 and id < 95"});
  ASSERT_TRUE(source.has_value()) << source.error().describe();

  EXPECT_THAT((*source)->unit_rows(), ElementsAre(5, 30, 30, 5));
  EXPECT_THAT((*source)->schema()->field_names(), ElementsAre("name"));
  auto stream = *(*source)->open(1, 7);
  for (const std::int64_t rows : {7, 7, 7, 7, 2})
    EXPECT_EQ((*stream->next(rows))->num_rows(), rows);
}

TEST_F(Filter, NamesColumnsAndTypesThatDoNotFit) {
  const std::string path = write("a.csv", "id,city\n0,Bonn\n");

  EXPECT_EQ(std::get<std::string>(kept("town == 'Bonn'")),
            path +
                " has no column 'town', only 'id', 'city' (correct the dataset's `filter`; texts "
                "stand in single quotes)");
  const auto misfit = [&](const std::string& filter, const std::string& columns,
                          const std::string& why) {
    EXPECT_EQ(std::get<std::string>(kept(filter)), "the filter \"" + filter +
                                                       "\" does not fit the columns of " + path +
                                                       " (" + columns + "): " + why);
  };
  misfit("id == 'Bonn'", "id: int64",
         "Function 'equal' has no kernel matching input types (int64, string)");
  misfit("id in ['Bonn']", "id: int64", "Failed to parse string: 'Bonn' as a scalar of type int64");
  misfit("city", "city: string", "it is no condition");
}

TEST_F(Filter, KeepsTheFirstRowsOfALimit) {
  for (std::int64_t file = 0; file < 3; ++file)
    write_parquet(folder_ / (std::to_string(file) + ".parquet"), numbered_rows(file * 10, 10), 4);
  const auto source = *open_files({.paths = {folder_.path()}, .filter = "id > 1", .limit = 15});

  EXPECT_THAT(source->unit_rows(), ElementsAre(2, 4, 2, 4, 3));
  EXPECT_EQ(source->total_rows(), 15);
  ASSERT_EQ(source->files().size(), 2U);
  EXPECT_EQ(source->files()[1].rows, 7);
  EXPECT_EQ(source->files()[1].units, 2);
  EXPECT_THAT(ids_of(**source->read(4)), ElementsAre(14, 15, 16));
  EXPECT_EQ((*open_files({.paths = {folder_.path()}, .limit = 1000}))->total_rows(), 30);
}

/// Return rows of numbers and texts, some of them missing, in an order that makes groups differ.
std::shared_ptr<arrow::Table> random_rows(std::int64_t rows, std::mt19937_64& random) {
  arrow::Int64Builder ids;
  arrow::Int32Builder labels;
  arrow::DoubleBuilder prices;
  arrow::StringBuilder cities;
  const auto one_of = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (std::int64_t id = 0; id < rows; ++id) {
    must(ids.Append(id));
    const int group = static_cast<int>(id / 10);
    must(one_of(8) == 0 && group % 2 == 0 ? labels.AppendNull() : labels.Append(group + one_of(3)));
    must(one_of(8) == 0   ? prices.AppendNull()
         : one_of(9) == 0 ? prices.Append(std::nan(""))
                          : prices.Append(group / 2.0 + one_of(2)));
    must(one_of(8) == 0 ? cities.AppendNull()
                        : cities.Append(std::string(1, static_cast<char>('a' + group % 7))));
  }
  const auto schema =
      arrow::schema({arrow::field("id", arrow::int64()), arrow::field("label", arrow::int32()),
                     arrow::field("price", arrow::float64()), arrow::field("city", arrow::utf8())});
  return arrow::Table::Make(schema, {must(ids.Finish()), must(labels.Finish()),
                                     must(prices.Finish()), must(cities.Finish())});
}

std::string random_filter(std::mt19937_64& random, int depth) {
  const auto one_of = [&](const std::vector<std::string>& texts) {
    return texts[random() % texts.size()];
  };
  const auto number = [&] { return std::to_string(random() % 14); };
  const std::string comparison = one_of({"==", "!=", "<", "<=", ">", ">="});
  switch (depth > 0 ? random() % 8 : random() % 5) {
    case 0:
      return "label " + comparison + " " + number();
    case 1:
      return "price " + comparison + " " + number() + one_of({"", ".5"});
    case 2:
      return "city " + comparison + " '" + one_of({"a", "c", "e", "g", "zz"}) + "'";
    case 3:
      return one_of({"label", "price"}) + one_of({" in [", " not in ["}) + number() + ", " +
             number() + "]";
    case 4:
      return one_of({"label", "price", "city"}) + one_of({" is null", " is not null"});
    case 5:
      return "not (" + random_filter(random, depth - 1) + ")";
    default:
      return "(" + random_filter(random, depth - 1) + one_of({" and ", " or "}) +
             random_filter(random, depth - 1) + ")";
  }
}

TEST_F(Filter, KeepsTheSameRowsWhateverTheStatisticsOfAParquetFileTell) {
  std::mt19937_64 random(20261127);
  const auto rows = random_rows(200, random);
  write_parquet(folder_ / "with/a.parquet", rows, 10);
  std::filesystem::create_directories(folder_ / "without");
  const auto plain = parquet::WriterProperties::Builder().disable_statistics()->build();
  must(parquet::arrow::WriteTable(
      *rows, arrow::default_memory_pool(),
      must(arrow::io::FileOutputStream::Open(folder_ / "without/a.parquet")), 10, plain));

  int kept_some = 0;
  for (int i = 0; i < 500; ++i) {
    const std::string filter = random_filter(random, 3);
    const auto expected = kept(FilesSpec{.paths = {folder_ / "without"}, .filter = filter});
    ASSERT_EQ(kept(FilesSpec{.paths = {folder_ / "with"}, .filter = filter}), expected) << filter;
    const auto* ids = std::get_if<Ids>(&expected);
    ASSERT_NE(ids, nullptr) << filter << ": " << std::get<std::string>(expected);
    if (!ids->empty() && ids->size() < 200) ++kept_some;
  }
  EXPECT_GT(kept_some, 250);
}

TEST_F(Filter, ReadsNoRowGroupsOfWhichTheStatisticsTellEnough) {
  const std::string path = folder_ / "a.parquet";
  write_parquet(path, numbered_rows(0, 100), 10);
  const auto footer = parquet::ParquetFileReader::OpenFile(path)->metadata();
  for (const int group : {1, 2, 8}) {  // their ids can no longer be decoded
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(footer->RowGroup(group)->ColumnChunk(0)->data_page_offset());
    file << std::string(20, '\xff');
  }

  EXPECT_EQ(kept("id >= 30 and id < 33 or id == 77"),
            (std::variant<Ids, std::string>(Ids{30, 31, 32, 77})));
  EXPECT_THAT(std::get<std::string>(kept("id >= 25 and id < 33")),
              testing::HasSubstr("cannot filter row group 2 of " + path));
  const auto all_of_some = open_files({.paths = {path}, .columns = {"name"}, .filter = "id < 200"});
  ASSERT_FALSE(all_of_some.has_error()) << all_of_some.error().describe();
  EXPECT_EQ((*all_of_some)->total_rows(), 100) << "all stay: none had to be read for that";
}

}  // namespace
}  // namespace train::data
