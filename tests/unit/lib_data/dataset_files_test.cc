#include "lib/data/dataset_files.h"

#include <gmock/gmock.h>

#include <thread>

#include "tests/unit/lib_data/parquet_files.h"

namespace train::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::unique_ptr<RowSource> opened(const FilesSpec& spec) {
  auto source = open_files(spec);
  EXPECT_TRUE(source.has_value()) << source.error().describe();
  return std::move(*source);
}

FilesSpec parquet(const std::string& path, std::vector<std::string> columns = {}) {
  return {.format = FileFormat::Parquet, .paths = {path}, .columns = std::move(columns)};
}

Result<std::vector<std::string>> paths_of(const std::string& path) {
  TRY(const auto found, find_files({path}, FileFormat::Parquet));
  return found.paths();
}

std::string refusal_of(const FilesSpec& spec) {
  const auto source = open_files(spec);
  return source.has_value() ? "opened" : source.error().describe();
}

std::shared_ptr<arrow::Table> one_column(const std::string& name,
                                         const std::shared_ptr<arrow::DataType>& type) {
  return arrow::Table::Make(arrow::schema({arrow::field(name, type)}),
                            {must(arrow::MakeArrayOfNull(type, 3))}, 3);
}

void change_bytes(const std::string& path, std::streamoff at, const std::string& bytes) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(at);
  file << bytes;
}

TEST(FindFiles, TakesAFileAFolderOrAGlob) {
  TestFolder folder;
  for (const char* name : {"b.parquet", "a.parquet", "sub/c.parquet", ".hidden.parquet",
                           "_temporary/d.parquet", "notes.txt"}) {
    write_parquet(folder / name, numbered_rows(0, 1), 1);
  }

  EXPECT_THAT(*paths_of(folder / "notes.txt"), ElementsAre(folder / "notes.txt"));
  EXPECT_THAT(*paths_of(folder.path()),
              ElementsAre(folder / "a.parquet", folder / "b.parquet", folder / "sub/c.parquet"));
  EXPECT_THAT(*paths_of(folder / "[ab].par*"),
              ElementsAre(folder / "a.parquet", folder / "b.parquet"));
}

TEST(FindFiles, PassesOverLinksToNothingExceptParquetFiles) {
  TestFolder folder;
  write_parquet(folder / "a.parquet", numbered_rows(0, 1), 1);
  for (const char* name : {".#a.parquet", "_latest", "notes"})
    std::filesystem::create_symlink("nothing", folder / name);

  const auto found = paths_of(folder.path());
  ASSERT_TRUE(found.has_value()) << found.error().describe();
  EXPECT_THAT(*found, ElementsAre(folder / "a.parquet"));

  std::filesystem::create_symlink("nothing", folder / "b.parquet");
  EXPECT_EQ(paths_of(folder.path()).error().describe(),
            "cannot read " + (folder / "b.parquet") + ": No such file or directory");
}

TEST(FindFiles, SaysWhatIsMissing) {
  TestFolder folder;
  std::filesystem::create_directories(folder / "empty");

  EXPECT_EQ(paths_of(folder / "empty").error().describe(),
            folder / "empty" +
                " has no parquet files (names must end in .parquet; those that begin with '.' or "
                "'_' are ignored)");
  EXPECT_EQ(paths_of(folder / "gone").error().describe(),
            folder / "gone" + " does not exist (check the path in the job's YAML)");
  EXPECT_EQ(
      paths_of(folder / "*.parquet").error().describe(),
      "no file is named like " + folder / "*.parquet" + " (check the path in the job's YAML)");
  std::filesystem::create_symlink(folder / "loop", folder / "loop");
  EXPECT_EQ(paths_of(folder / "loop/a.parquet").error().describe(),
            "cannot read " + folder / "loop/a.parquet: Too many levels of symbolic links");
}

TEST(OpenFiles, KnowsTheRowGroupsOfAllFiles) {
  TestFolder folder;
  write_parquet(folder / "1.parquet", numbered_rows(0, 7), 3);
  write_parquet(folder / "2.parquet", numbered_rows(7, 4), 3);

  const auto source = opened(parquet(folder.path()));

  EXPECT_THAT(source->unit_rows(), ElementsAre(3, 3, 1, 3, 1));
  EXPECT_EQ(source->schema()->ToString(),
            "id: int64\nname: string\npixels: fixed_size_list<element: uint8>[4]");
  EXPECT_THAT(ids_of(**source->read(1)), ElementsAre(3, 4, 5));
  EXPECT_THAT(ids_of(**source->read(4)), ElementsAre(10));
}

TEST(OpenFiles, ReadsTheSelectedColumnsInTheOrderAskedFor) {
  TestFolder folder;
  write_parquet(folder / "1.parquet", numbered_rows(0, 2), 2);

  const auto source = opened(parquet(folder / "1.parquet", {"pixels", "id"}));

  EXPECT_EQ((*source->read(0))->ToString(),
            "pixels:   [\n    [\n      0,\n      0,\n      0,\n      0\n    ],\n    [\n      1,\n  "
            "    1,\n      1,\n      1\n    ]\n  ]\n"
            "id:   [\n    0,\n    1\n  ]\n");
}

TEST(OpenFiles, ListsTheKnownColumnsWhenOneIsMissing) {
  TestFolder folder;
  write_parquet(folder / "1.parquet", numbered_rows(0, 2), 2);

  EXPECT_EQ(
      refusal_of(parquet(folder / "1.parquet", {"id", "image"})),
      folder / "1.parquet" +
          " has no column 'image', only 'id', 'name', 'pixels' (correct `columns` of the dataset)");
}

TEST(OpenFiles, NamesBothFilesWhoseSchemasDiffer) {
  TestFolder folder;
  write_parquet(folder / "a.parquet", one_column("x", arrow::int64()), 3);
  write_parquet(folder / "b.parquet", one_column("x", arrow::float32()), 3);
  write_parquet(folder / "c.parquet", one_column("y", arrow::int64()), 3);

  EXPECT_EQ(refusal_of(parquet(folder / "[ab]*")),
            "files of one dataset differ: column 'x' is int64 in " + folder / "a.parquet" +
                ", but float in " + folder / "b.parquet" +
                " (rewrite one of them, or select the columns that agree with `columns`)");
  EXPECT_EQ(refusal_of(parquet(folder / "[ac]*")),
            "files of one dataset differ: column 'x' is int64 in " + folder / "a.parquet" +
                ", but nothing in " + folder / "c.parquet" +
                " (rewrite one of them, or select the columns that agree with `columns`)");
  write_parquet(folder / "d.parquet", one_column("id", arrow::int64()), 3);
  write_parquet(folder / "e.parquet", numbered_rows(0, 3), 3);
  EXPECT_THAT(refusal_of(parquet(folder / "[de]*")),
              StartsWith("files of one dataset differ: column 'name' is nothing in " +
                         folder / "d.parquet" + ", but string in " + folder / "e.parquet"));
}

TEST(OpenFiles, NamesAFileThatIsNotWhole) {
  TestFolder folder;
  write_parquet(folder / "1.parquet", numbered_rows(0, 1000), 100);
  std::filesystem::resize_file(folder / "1.parquet",
                               std::filesystem::file_size(folder / "1.parquet") - 100);
  std::ofstream(folder / "empty.parquet").close();
  std::ofstream(folder / "text.parquet") << "id,name\n1,one\n";

  EXPECT_THAT(refusal_of(parquet(folder / "1.parquet")),
              StartsWith(folder / "1.parquet" + " is not a complete Parquet file: "));
  EXPECT_THAT(refusal_of(parquet(folder / "empty.parquet")),
              StartsWith(folder / "empty.parquet" + " is not a complete Parquet file: "));
  EXPECT_THAT(refusal_of(parquet(folder / "text.parquet")),
              StartsWith(folder / "text.parquet" + " is not a complete Parquet file: "));
}

TEST(OpenFiles, NamesTheRowGroupThatCannotBeRead) {
  TestFolder folder;
  write_parquet(folder / "1.parquet", numbered_rows(0, 2000), 1000);
  const auto source = opened(parquet(folder / "1.parquet"));
  // The first page header of the first row group is after the magic bytes.
  change_bytes(folder / "1.parquet", 4, std::string(64, '\xff'));

  const auto rows = source->read(0);

  ASSERT_TRUE(rows.has_error());
  EXPECT_THAT(rows.error().message,
              StartsWith("cannot read row group 0 of " + folder / "1.parquet" + ": "));
  EXPECT_TRUE(source->read(1).has_value());
}

TEST(OpenFiles, NamesTheFileThatVanishedMeanwhile) {
  TestFolder folder;
  write_parquet(folder / "1.parquet", numbered_rows(0, 10), 10);
  const auto source = opened(parquet(folder / "1.parquet"));
  std::filesystem::remove(folder / "1.parquet");

  const auto rows = source->read(0);

  ASSERT_TRUE(rows.has_error());
  EXPECT_THAT(rows.error().message, HasSubstr("cannot open " + folder / "1.parquet"));
}

TEST(OpenFiles, IsReadBySeveralThreads) {
  TestFolder folder;
  write_parquet(folder / "1.parquet", numbered_rows(0, 400), 100);
  const auto source = opened(parquet(folder / "1.parquet"));

  std::vector<std::int64_t> firsts(4);
  std::vector<std::thread> threads;
  for (std::int64_t group = 0; group < 4; ++group) {
    threads.emplace_back([&, group] {
      firsts[static_cast<std::size_t>(group)] = ids_of(**source->read(group)).front();
    });
  }
  for (std::thread& thread : threads) thread.join();

  EXPECT_THAT(firsts, ElementsAre(0, 100, 200, 300));
}

}  // namespace
}  // namespace train::data
