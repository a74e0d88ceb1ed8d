// Each format with files that Arrow or this test writes byte by byte, read back through open_files.
#include <arrow/adapters/orc/adapter.h>
#include <arrow/compute/initialize.h>
#include <arrow/csv/writer.h>
#include <arrow/io/compressed.h>
#include <arrow/ipc/writer.h>
#include <arrow/util/compression.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "lib/data/dataset_files.h"
#include "tests/unit/lib_data/parquet_files.h"

namespace train::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Rows = std::shared_ptr<arrow::RecordBatch>;

class Formats : public testing::Test {
 protected:
  void SetUp() override { must(arrow::compute::Initialize()); }

  std::string write(const std::string& name, std::string_view bytes) {
    std::string path = folder_ / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  std::string write_compressed(const std::string& name, std::string_view text,
                               arrow::Compression::type type) {
    std::string path = folder_ / name;
    auto file = must(arrow::io::FileOutputStream::Open(path));
    const auto codec = must(arrow::util::Codec::Create(type));
    auto stream = must(arrow::io::CompressedOutputStream::Make(codec.get(), file));
    must(stream->Write(text));
    must(stream->Close());
    return path;
  }
  FilesSpec spec(const std::string& path, FileFormat format = FileFormat::Auto) {
    FilesSpec spec;
    spec.format = format;
    spec.paths = {path};
    return spec;
  }
  std::unique_ptr<RowSource> open(const FilesSpec& spec) {
    auto source = open_files(spec);
    if (source.has_error()) {
      ADD_FAILURE() << source.error().describe();
      return nullptr;
    }
    return std::move(*source);
  }
  std::string refusal(const FilesSpec& spec) {
    auto source = open_files(spec);
    if (source.has_error()) return source.error().describe();
    for (std::int64_t unit = 0; unit < static_cast<std::int64_t>((*source)->unit_rows().size());
         ++unit) {
      const auto rows = (*source)->read(unit);
      if (rows.has_error()) return rows.error().describe();
    }
    return "nothing is wrong";
  }
  std::string refusal(const std::string& path) { return refusal(spec(path)); }

  /// Return a column of all units as text, value by value.
  static std::vector<std::string> values(const RowSource& source, const std::string& column) {
    std::vector<std::string> all;
    for (std::int64_t unit = 0; unit < static_cast<std::int64_t>(source.unit_rows().size());
         ++unit) {
      const auto rows = source.read(unit);
      if (rows.has_error()) {
        ADD_FAILURE() << rows.error().describe();
        return all;
      }
      const auto array = (*rows)->GetColumnByName(column);
      for (std::int64_t row = 0; row < array->length(); ++row)
        all.push_back(must(array->GetScalar(row))->ToString());
    }
    return all;
  }

  TestFolder folder_;
};

TEST_F(Formats, ReadsCsvWithTheTypesOfItsFirstRows) {
  const auto source = open(spec(write("a.csv", "id,name,score\n1,ada,0.5\n2,\"b,ob\",1\n")));

  EXPECT_EQ(source->schema()->ToString(), "id: int64\nname: string\nscore: double");
  EXPECT_THAT(source->unit_rows(), ElementsAre(2));
  EXPECT_THAT(values(*source, "id"), ElementsAre("1", "2"));
  EXPECT_THAT(values(*source, "name"), ElementsAre("ada", "b,ob"));
  EXPECT_THAT(values(*source, "score"), ElementsAre("0.5", "1"));
}

TEST_F(Formats, SkipsBlankLinesOfCsvAndReadsALastLineWithoutEnd) {
  const auto source = open(spec(write("a.csv", "\nid,x\r\n\r\n1,2\r\n\n3,4")));

  EXPECT_THAT(source->unit_rows(), ElementsAre(2));
  EXPECT_THAT(values(*source, "x"), ElementsAre("2", "4"));
}

TEST_F(Formats, GivesColumnsOfCsvTheTypesOfTheSpec) {
  FilesSpec typed = spec(write("a.csv", "id,zip,day\n1,04109,2026-11-27\n"));
  typed.types = {{"zip", "string"}, {"id", "float32"}, {"day", "date32"}};
  typed.columns = {"zip", "id", "day"};
  const auto source = open(typed);

  EXPECT_EQ(source->schema()->ToString(), "zip: string\nid: float\nday: date32[day]");
  EXPECT_THAT(values(*source, "zip"), ElementsAre("04109"));
}

TEST_F(Formats, ReadsSemicolonsTabsAndLinesWithinQuotes) {
  FilesSpec semicolons = spec(write("a.csv", "id;text\n1;\"one\n\ntwo\"\n2;x\n"));
  semicolons.delimiter = ';';
  semicolons.newlines_in_values = true;

  EXPECT_THAT(values(*open(semicolons), "text"), ElementsAre("one\n\ntwo", "x"));
  EXPECT_THAT(values(*open(spec(write("b.tsv", "id\ttext\n1\ta,b\n"))), "text"),
              ElementsAre("a,b"));
}

TEST_F(Formats, CutsCsvIntoUnitsOfWholeLines) {
  std::string text = "id,filler\n";
  for (int id = 0; id < 40'000; ++id)
    text += std::to_string(id) + "," + std::string(500, 'x') + "\n";
  const auto source = open(spec(write("a.csv", text)));

  ASSERT_EQ(source->unit_rows().size(), 10U);  // 20 MB
  const auto ids = values(*source, "id");
  ASSERT_EQ(ids.size(), 40'000U);
  for (std::size_t id = 0; id < ids.size(); ++id) ASSERT_EQ(ids[id], std::to_string(id));
}

TEST_F(Formats, NamesTheFileAndThePartOfABadValue) {
  std::string text = "id\n";
  for (int id = 0; id < 300'000; ++id) text += std::to_string(id) + "\n";
  const std::string path = write("a.csv", text + "oops\n");

  EXPECT_THAT(refusal(path),
              HasSubstr("cannot read part 0 of " + path + ": from byte 3 on: CSV: "));
  EXPECT_THAT(refusal(path), HasSubstr("'oops'"));
  EXPECT_THAT(refusal(path),
              HasSubstr("(correct it, or give another type in the dataset's `schema`)"));
}

TEST_F(Formats, RefusesCsvWhoseFilesOrSpecDisagree) {
  write("d/1.csv", "id,x\n1,2\n");
  write("d/2.csv", "id,y\n1,2\n");
  FilesSpec unknown = spec(folder_ / "d/1.csv");
  unknown.types = {{"z", "int8"}};

  EXPECT_THAT(refusal(folder_ / "d"), HasSubstr("column 'x' is int64 in " + (folder_ / "d/1.csv") +
                                                ", but nothing in " + (folder_ / "d/2.csv")));
  EXPECT_EQ(refusal(unknown), "cannot read " + (folder_ / "d/1.csv") +
                                  ": it has no column 'z', only 'id', 'x' (correct `schema` of the "
                                  "dataset)");
  unknown.types = {{"x", "int9"}};
  EXPECT_THAT(refusal(unknown),
              HasSubstr("schema.x: there is no type 'int9' (write one of bool, "));
  EXPECT_THAT(refusal(write("e.csv", "")), HasSubstr("it has no line of column names"));
}

TEST_F(Formats, TakesTheTypesOfTheFirstFileForAll) {
  write("d/0.csv", "id,x\n");  // has no row to tell any
  write("d/1.csv", "id,x\n1,2.5\n");
  write("d/2.csv", "x,id\n7,2\n");
  write("d/3.csv", "id,x\n");
  const auto source = open(spec(folder_ / "d"));

  EXPECT_THAT(values(*source, "x"), ElementsAre("2.5", "7"));
  EXPECT_THAT(values(*source, "id"), ElementsAre("1", "2"));
}

TEST_F(Formats, ReadsJsonLines) {
  write("d/1.jsonl", "{\"id\": 1, \"tags\": [\"a\"]}\n  \n{\"id\": 2, \"tags\": []}\n");
  write("d/2.jsonl", "{\"tags\": null, \"id\": 3, \"more\": true}");
  const auto source = open(spec(folder_ / "d"));

  EXPECT_THAT(source->unit_rows(), ElementsAre(2, 1));
  EXPECT_THAT(values(*source, "id"), ElementsAre("1", "2", "3"));
  EXPECT_THAT(refusal(write("bad.json", "{\"id\": 1}\n{\"id\": }\n")), HasSubstr("JSON"));
}

TEST_F(Formats, RefusesJsonThatArrowCouldNotSurvive) {
  EXPECT_THAT(refusal(write("null.json", "null\n{\"a\": 1}\n")),
              HasSubstr("the line from byte 0 on is not one JSON object"));
  EXPECT_THAT(refusal(write("deep.json", "{\"a\": " + std::string(20'000, '[') +
                                             std::string(20'000, ']') + "}\n")),
              HasSubstr("nested deeper than 100"));
}

TEST_F(Formats, SaysWhatToDoWhereRowsAreNotLines) {
  EXPECT_THAT(refusal(write("a.csv", "id,x\n1,\"a\nb\"\n2,c\n")),
              HasSubstr("set the dataset's `newlines_in_values`"));
  EXPECT_THAT(refusal(write("b.csv", "id,x\r1,2\r")), HasSubstr("lines must end in LF or CRLF"));
  EXPECT_THAT(refusal(write("c.csv", "id," + std::string(2 << 20, 'x') + "\n1,2\n")),
              HasSubstr("its first line is longer than 1 MiB"));
}

TEST_F(Formats, PassesOverTextFilesWithoutRows) {
  write("d/1.json", " \n");
  write("d/2.json", "{\"x\": 1}\n");
  write("e/1.csv", "x");  // without an end
  write("e/2.csv", "x\n1\n");
  FilesSpec chosen = spec(folder_ / "d");
  chosen.columns = {"x"};

  EXPECT_THAT(values(*open(chosen), "x"), ElementsAre("1"));
  EXPECT_THAT(values(*open(spec(folder_ / "e")), "x"), ElementsAre("1"));
}

TEST_F(Formats, ReadsOnlyTheChosenColumnsOfJson) {
  FilesSpec chosen = spec(write("a.json", "{\"id\": 1, \"x\": 2}\n{\"id\": 3, \"x\": 4}\n"));
  chosen.columns = {"x"};
  chosen.types = {{"x", "float32"}};

  EXPECT_EQ(open(chosen)->schema()->ToString(), "x: float");
  EXPECT_THAT(values(*open(chosen), "x"), ElementsAre("2", "4"));
}

TEST_F(Formats, ReadsCompressedText) {
  const std::string text = "id\n1\n2\n3\n";
  const auto gzip = write_compressed("a.csv.gz", text, arrow::Compression::GZIP);
  const auto zstd = write_compressed("b.csv.zst", text, arrow::Compression::ZSTD);
  const auto bzip2 = write_compressed("c.csv.bz2", text, arrow::Compression::BZ2);
  const auto json =
      write_compressed("d.jsonl.gz", "{\"id\": 1}\n{\"id\": 2}\n", arrow::Compression::GZIP);

  for (const std::string& path : {gzip, zstd, bzip2})
    EXPECT_THAT(values(*open(spec(path)), "id"), ElementsAre("1", "2", "3")) << path;
  EXPECT_THAT(values(*open(spec(json)), "id"), ElementsAre("1", "2"));
}

TEST_F(Formats, RefusesCompressedTextThatIsCut) {
  const auto path = write_compressed("a.csv.gz", "id\n1\n2\n3\n", arrow::Compression::GZIP);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 12);

  EXPECT_THAT(refusal(path), HasSubstr("cannot read " + path + ": cannot read it: "));
}

TEST_F(Formats, ReadsTheRecordBatchesOfAnArrowFile) {
  const std::string path = folder_ / "a.arrow";
  const auto table = numbered_rows(0, 10);
  auto file = must(arrow::io::FileOutputStream::Open(path));
  auto writer = must(arrow::ipc::MakeFileWriter(file, table->schema()));
  must(writer->WriteTable(*table, 4));
  must(writer->Close());
  must(file->Close());
  FilesSpec chosen = spec(path);
  chosen.columns = {"name", "id"};
  const auto source = open(chosen);

  EXPECT_THAT(source->unit_rows(), ElementsAre(4, 4, 2));
  EXPECT_EQ(source->schema()->ToString(), "name: string\nid: int64");
  EXPECT_THAT(values(*source, "id"), ElementsAre("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"));
  EXPECT_EQ(values(*source, "name").back(), "row 9");
}

TEST_F(Formats, RefusesArrowStreamsAndOffsetsOutOfBounds) {
  const std::string path = folder_ / "a.arrow";
  const auto table = numbered_rows(0, 10);
  {
    auto file = must(arrow::io::FileOutputStream::Open(path));
    auto writer = must(arrow::ipc::MakeStreamWriter(file, table->schema()));
    must(writer->WriteTable(*table));
    must(writer->Close());
  }
  EXPECT_THAT(refusal(path), HasSubstr(path + " is not a complete Arrow file: "));
  EXPECT_THAT(refusal(path), HasSubstr("a stream (as pyarrow.ipc.new_stream writes it)"));

  // The offsets of "names" are 0, 2, 100: the last is beyond the four letters.
  const std::vector<std::int32_t> offsets{0, 2, 100};
  const auto names = arrow::MakeArray(arrow::ArrayData::Make(
      arrow::utf8(), 2,
      {nullptr, arrow::Buffer::FromVector(offsets), arrow::Buffer::FromString("abcd")}));
  const auto schema = arrow::schema({arrow::field("names", arrow::utf8())});
  const std::string bad = folder_ / "bad.arrow";
  {
    auto file = must(arrow::io::FileOutputStream::Open(bad));
    auto writer = must(arrow::ipc::MakeFileWriter(file, schema));
    must(writer->WriteRecordBatch(*arrow::RecordBatch::Make(schema, 2, {names})));
    must(writer->Close());
  }
  EXPECT_THAT(refusal(bad), HasSubstr("cannot read record batch 0 of " + bad));
}

TEST_F(Formats, ReadsTheStripesOfAnOrcFile) {
  const std::string path = folder_ / "a.orc";
  const auto ids = must(numbered_rows(0, 5)->SelectColumns({0, 1}));
  auto file = must(arrow::io::FileOutputStream::Open(path));
  auto writer = must(arrow::adapters::orc::ORCFileWriter::Open(file.get()));
  must(writer->Write(*ids));
  must(writer->Close());
  must(file->Close());
  FilesSpec chosen = spec(path);
  chosen.columns = {"name"};

  EXPECT_THAT(open(chosen)->unit_rows(), ElementsAre(5));
  EXPECT_EQ(values(*open(chosen), "name").back(), "row 4");
  EXPECT_THAT(refusal(write("b.orc", "ORC but no more")),
              HasSubstr((folder_ / "b.orc") + " is not a complete ORC file"));
}

/// Return a NumPy file of version 1.
std::string npy(const std::string& dict, std::string_view values) {
  std::string header = dict + "\n";
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size() & 255) +
         static_cast<char>(header.size() >> 8) + header + std::string(values);
}

TEST_F(Formats, ReadsNumpyRowsOfAnyShape) {
  const std::string matrix = write(
      "a.npy", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }", "\1\2\3\4\5\6"));
  const std::string flags =
      write("b.npy", npy("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }",
                         std::string_view("\1\0\1", 3)));

  const auto source = open(spec(matrix));
  EXPECT_EQ(source->schema()->ToString(), "data: fixed_size_list<item: uint8>[3]");
  EXPECT_THAT(source->unit_rows(), ElementsAre(2));
  const auto rows = *source->read(0);
  const auto& lists = static_cast<const arrow::FixedSizeListArray&>(*rows->column(0));
  EXPECT_EQ(static_cast<const arrow::UInt8Array&>(*lists.values()).Value(4), 5);
  EXPECT_THAT(values(*open(spec(flags)), "data"), ElementsAre("true", "false", "true"));
}

TEST_F(Formats, RefusesNumpyFilesThatAreCutOrOfOtherKinds) {
  const auto refused = [&](const std::string& dict, std::string_view values) {
    return refusal(write("a.npy", npy(dict, values)));
  };
  EXPECT_THAT(refused("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3)}", "\1\2\3\4"),
              HasSubstr("which are no whole number of rows of 3 bytes"));
  EXPECT_THAT(refused("{'descr': '|u1', 'fortran_order': False, 'shape': (3, 3)}", "\1\2\3"),
              HasSubstr("it holds 1 rows, and its header says 3"));
  EXPECT_THAT(refused("{'descr': '|u1', 'fortran_order': True, 'shape': (1, 3)}", "\1\2\3"),
              HasSubstr("Fortran's order"));
  EXPECT_THAT(refused("{'descr': '>i4', 'fortran_order': False, 'shape': (1,)}", "\1\2\3\4"),
              HasSubstr("its type is >i4"));
  EXPECT_THAT(refused("{'descr': '<f8', 'fortran_order': False, 'shape': ()}", "12345678"),
              HasSubstr("it holds a single value and no rows"));
  EXPECT_THAT(refused("{'descr': '|u1', 'fortran_order': False, 'shape': (1, 4294967296)}", "\1"),
              HasSubstr("larger than 2 GiB"));
  EXPECT_THAT(refused("{'descr': '|u1', 'fortran_order': False, 'shape': (1, 0)}", "\1"),
              HasSubstr("its rows are empty"));
  EXPECT_THAT(refusal(write("b.npy", "no")), HasSubstr("it does not begin as one"));
}

TEST_F(Formats, ReadsBothKindsOfCifar) {
  const auto picture = [](char value) { return std::string(3072, value); };
  write("ten/data_batch_1.bin", std::string(1, '\7') + picture('\1') + '\3' + picture('\2'));
  write("hundred/train.bin", std::string("\x02\x20", 2) + picture('\5'));
  FilesSpec hundred = spec(folder_ / "hundred", FileFormat::Cifar);
  hundred.labels = 2;

  const auto ten = open(spec(folder_ / "ten", FileFormat::Cifar));
  EXPECT_THAT(values(*ten, "label"), ElementsAre("7", "3"));
  EXPECT_EQ(ten->schema()->field(0)->type()->ToString(),
            "fixed_size_list<item: fixed_size_list<item: fixed_size_list<item: "
            "uint8>[32]>[32]>[3]");
  EXPECT_THAT(values(*open(hundred), "label"), ElementsAre("32"));
  EXPECT_THAT(values(*open(hundred), "coarse_label"), ElementsAre("2"));
  EXPECT_THAT(refusal(spec(folder_ / "hundred", FileFormat::Cifar)),
              HasSubstr("which are no whole number of rows of 3073 bytes"));
}

TEST_F(Formats, SaysWhichNameTellsNoFormat) {
  write("d/1.csv", "id\n1\n");
  write("d/2.json", "{}");

  EXPECT_EQ(refusal(write("data.txt", "id\n1\n")), "the name of " + (folder_ / "data.txt") +
                                                       " does not tell its format (give the "
                                                       "dataset's `format`)");
  EXPECT_THAT(values(*open(spec(folder_ / "data.txt", FileFormat::Csv)), "id"), ElementsAre("1"));
  EXPECT_EQ(refusal(folder_ / "d"), (folder_ / "d/1.csv") + " is csv, and " +
                                        (folder_ / "d/2.json") +
                                        " is json (files of one dataset have one format: give its "
                                        "`format`, or other paths)");
  EXPECT_THAT(values(*open(spec(folder_ / "d", FileFormat::Csv)), "id"), ElementsAre("1"));
}

TEST_F(Formats, ReadsAListOfPathsInItsOrder) {
  FilesSpec list = spec(write("z.csv", "id\n1\n"));
  list.paths.push_back(write("a.csv", "id\n2\n"));

  EXPECT_THAT(values(*open(list), "id"), ElementsAre("1", "2"));
  list.paths.push_back(folder_ / "missing.csv");
  EXPECT_THAT(refusal(list), HasSubstr("missing.csv does not exist"));
}

TEST_F(Formats, RefusesAPipeInsteadOfWaitingForIt) {
  std::filesystem::create_directories(folder_ / "d");
  ASSERT_EQ(mkfifo((folder_ / "d/a.csv").c_str(), 0600), 0);

  EXPECT_THAT(refusal(folder_ / "d"), HasSubstr("d/a.csv is not a regular file"));
  EXPECT_THAT(refusal(folder_ / "d/*"), HasSubstr("d/a.csv is not a regular file"));
}

}  // namespace
}  // namespace train::data
