// Each format gives the same rows from an object store as from a file system.
#include <arrow/adapters/orc/adapter.h>
#include <arrow/compute/initialize.h>
#include <arrow/io/compressed.h>
#include <arrow/io/memory.h>
#include <arrow/ipc/writer.h>
#include <arrow/util/compression.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "lib/data/dataset_files.h"
#include "tests/fakes/storage_module.h"
#include "tests/unit/lib_data/parquet_files.h"

namespace train::data {
namespace {

using testing::HasSubstr;

std::string text_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string compressed(const std::string& text, arrow::Compression::type type) {
  auto out = must(arrow::io::BufferOutputStream::Create());
  const auto codec = must(arrow::util::Codec::Create(type));
  auto stream = must(arrow::io::CompressedOutputStream::Make(codec.get(), out));
  must(stream->Write(text));
  must(stream->Close());
  return must(out->Finish())->ToString();
}

std::string unpacked(const std::string& bytes) {
  const auto codec = must(arrow::util::Codec::Create(arrow::Compression::GZIP));
  auto stream = must(arrow::io::CompressedInputStream::Make(
      codec.get(), std::make_shared<arrow::io::BufferReader>(arrow::Buffer::FromString(bytes))));
  return must(stream->Read(64 << 20))->ToString();
}

class ObjectFormats : public testing::Test {
 protected:
  void SetUp() override { must(arrow::compute::Initialize()); }

  void add(const std::string& name, const std::string& bytes) {
    const std::string path = folder_ / name;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    objects_->put(name, bytes);
  }
  template <class Write>
  void add_written(const std::string& name, const Write& write) {
    auto out = must(arrow::io::BufferOutputStream::Create());
    write(out);
    add(name, must(out->Finish())->ToString());
  }
  static std::unique_ptr<RowSource> opened(FilesSpec spec, const std::string& path) {
    spec.paths = {path};
    auto source = open_files(spec);
    if (source.has_error()) ADD_FAILURE() << source.error().describe();
    return source.has_error() ? nullptr : std::move(*source);
  }
  static std::string below(const std::string& path, const std::string& folder) {
    return path.substr(0, folder.size()) == folder ? path.substr(folder.size()) : path;
  }
  /// Compare what is at `path` in the folder and in the store.
  void expect_same(const std::string& path, const FilesSpec& spec = {}) {
    const auto local = opened(spec, folder_ / path), remote = opened(spec, kRoot + path);
    ASSERT_TRUE(local && remote) << path;
    ASSERT_EQ(local->unit_rows(), remote->unit_rows()) << path;
    EXPECT_GT(local->total_rows(), 0) << path;
    EXPECT_EQ(local->decoded_bytes(), remote->decoded_bytes()) << path;
    EXPECT_EQ(local->reads_rows(), remote->reads_rows()) << path;
    ASSERT_TRUE(local->schema()->Equals(remote->schema())) << path;
    for (std::size_t i = 0; i < local->unit_rows().size(); ++i) {
      const auto unit = static_cast<std::int64_t>(i);
      const auto a = local->read(unit), b = remote->read(unit);
      ASSERT_TRUE(a) << a.error().describe();
      ASSERT_TRUE(b) << b.error().describe();
      EXPECT_TRUE((*a)->Equals(**b)) << path << " unit " << unit;
      const std::int64_t rows = local->unit_rows()[i];
      if (!local->reads_rows() || rows == 0) continue;
      const std::vector<std::int64_t> some{rows - 1, 0, rows / 2, 0};
      const auto c = local->read_rows(unit, some), d = remote->read_rows(unit, some);
      ASSERT_TRUE(c && d) << path;
      EXPECT_TRUE((*c)->Equals(**d)) << path << " rows of unit " << unit;
    }
  }
  std::string refusal(const std::string& path, FilesSpec spec = {}) {
    spec.paths = {path};
    const auto source = open_files(spec);
    if (source.has_error()) return source.error().describe();
    const auto rows = (*source)->read(0);
    return rows.has_error() ? rows.error().describe() : "nothing is wrong";
  }

  static constexpr const char* kRoot = "s3://formats/";
  TestFolder folder_;
  std::shared_ptr<fakes::MemoryObjects> objects_ = [] {
    auto objects = fakes::objects_at(kRoot);
    for (const std::string& key : objects->keys()) objects->remove(key);
    return objects;
  }();
};

TEST_F(ObjectFormats, Parquet) {
  for (const auto& [name, rows, group] : {std::tuple("p/a.parquet", 1000, 300),
                                          {"p/b.parquet", 7, 1},
                                          {"p/c.parquet", 400'000, 400'000}}) {
    write_parquet(folder_ / name, numbered_rows(0, rows), group);
    objects_->put(name, text_of_file(folder_ / name));
  }
  expect_same("p/");
  expect_same("p/*.parquet", {.columns = {"pixels", "id"}});
  expect_same("p/a.parquet", {.filter = "id >= 250 and id < 900"});
  expect_same("p/a.parquet", {.columns = {"name"}, .limit = 310});
}

TEST_F(ObjectFormats, ParquetOfLargeRowGroups) {
  arrow::FieldVector fields;
  arrow::ArrayVector columns;
  for (int column = 0; column < 3; ++column) {
    arrow::FixedSizeBinaryBuilder builder(arrow::fixed_size_binary(column == 0 ? 8 : 900));
    std::uint64_t value = 88172645463325252U + static_cast<std::uint64_t>(column);
    for (int row = 0; row < 12'000; ++row) {
      std::string bytes;
      while (bytes.size() < static_cast<std::size_t>(builder.byte_width())) {
        value ^= value << 13U, value ^= value >> 7U, value ^= value << 17U;  // xorshift
        bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
      }
      must(builder.Append(bytes.data()));
    }
    fields.push_back(arrow::field("c" + std::to_string(column), builder.type()));
    columns.push_back(must(builder.Finish()));
  }
  write_parquet(folder_ / "large.parquet", arrow::Table::Make(arrow::schema(fields), columns),
                12'000);
  objects_->put("large.parquet", text_of_file(folder_ / "large.parquet"));
  expect_same("large.parquet");
  expect_same("large.parquet", {.columns = {"c0"}});
}

TEST_F(ObjectFormats, Texts) {
  std::string csv = "x,y\n", json;
  for (int row = 0; row < 400'000; ++row) {
    csv += fmt::format("{},text {}\n", row, row);
    json += fmt::format("{{\"x\": {}, \"y\": \"text {}\"}}\n", row, row);
  }
  add("t/a.csv", csv);
  add("t/b.csv", "x,y\n1,z\n");
  add("j/a.jsonl", json);
  add("j/b.jsonl", "{\"x\": 1, \"y\": \"z\"}\n");
  add("z/a.csv.gz", compressed(csv, arrow::Compression::GZIP));
  add("z/b.csv.zst", compressed(csv, arrow::Compression::ZSTD));
  for (const char* path : {"t/", "j/", "z/"}) expect_same(path);
  expect_same("t/", {.types = {{"x", "float32"}}, .filter = "x < 5"});
}

TEST_F(ObjectFormats, ArrowAndOrc) {
  const auto table = numbered_rows(0, 50'000);
  add_written("a/a.arrow", [&](const auto& out) {
    auto writer = must(arrow::ipc::MakeFileWriter(out, table->schema()));
    must(writer->WriteTable(*table, 7000));
    must(writer->Close());
  });
  const auto flat = must(table->SelectColumns({0, 1}));
  add_written("o/a.orc", [&](const auto& out) {
    auto writer = must(arrow::adapters::orc::ORCFileWriter::Open(out.get()));
    must(writer->Write(*flat));
    must(writer->Close());
  });
  for (const char* path : {"a/a.arrow", "o/"}) expect_same(path);
  expect_same("a/", {.columns = {"name"}});
  expect_same("o/", {.columns = {"name"}});
}

TEST_F(ObjectFormats, NumpyAndCifar) {
  std::string header = "{'descr': '<i4', 'fortran_order': False, 'shape': (300000, 5), }";
  header.resize(117, ' ');
  std::string npy = "\x93NUMPY\x01";
  npy += std::string("\x00\x76\x00", 3) + header + "\n";
  for (int value = 0; value < 1'500'000; ++value)
    npy.append(reinterpret_cast<const char*>(&value), 4);
  add("n/a.npy", npy);
  expect_same("n/");
  std::string cifar;
  for (int row = 0; row < 1500; ++row) cifar += std::string(3073, static_cast<char>(row % 256));
  add("c/a.bin", cifar);
  expect_same("c/", {.format = FileFormat::Cifar});
}

TEST_F(ObjectFormats, PicturesAndSamples) {
  const std::string pictures = TRAIN_SOURCE_DIR "/tests/unit/lib_data/pictures/";
  for (int number = 100; number < 200; ++number)
    add(fmt::format("i/{}/{}.png", number % 3, number),
        text_of_file(pictures + "rgb.png") + std::to_string(number));
  expect_same("i", {.format = FileFormat::Images});
  expect_same("i/*/*.png", {.format = FileFormat::Images});

  const std::string packed = text_of_file(pictures + "samples.tar.gz");
  add("w/a.tar.gz", packed);
  add("w/b.tar", unpacked(packed));
  expect_same("w/*", {.columns = {"cls", "jpg"}});
}

TEST_F(ObjectFormats, FilesAndObjectsTogether) {
  add("m/a.csv", "x\n1\n2\n");
  objects_->put("m/b.csv", "x\n3\n");
  const auto source = open_files({.paths = {folder_ / "m/a.csv", "s3://formats/m/b.csv"}});
  ASSERT_TRUE(source) << source.error().describe();
  EXPECT_EQ((*source)->total_rows(), 3);
  EXPECT_EQ((*source)->files()[0].version, "");
  EXPECT_NE((*source)->files()[1].version, "");
}

TEST_F(ObjectFormats, AnObjectThatChangesAfterwardsIsAnError) {
  write_parquet(folder_ / "a.parquet", numbered_rows(0, 10), 10);
  const std::string bytes = text_of_file(folder_ / "a.parquet");
  objects_->put("a.parquet", bytes);
  add("b.csv", "x\n1\n");
  for (const char* name : {"a.parquet", "b.csv"}) {
    const auto source = opened({}, std::string(kRoot) + name);
    ASSERT_TRUE(source);
    const auto before = source->files().front();
    objects_->put(name, objects_->get(name) + " ");
    const auto rows = source->read(0);
    ASSERT_FALSE(rows) << name;
    EXPECT_EQ(rows.error().code, Errc::Corrupt);
    EXPECT_THAT(rows.error().describe(), HasSubstr("is not what it was when it was listed"));
    objects_->put(name, std::string(static_cast<std::size_t>(before.bytes), 'x'));
    EXPECT_NE((*find_files({std::string(kRoot) + name}, FileFormat::Auto)).files.front().version,
              before.version);
  }
}

TEST_F(ObjectFormats, WhatIsDamagedNamesTheObject) {
  add("a.parquet", "PAR1 and nothing else");
  add("b.npy", "no array");
  add("c.tar", std::string(512, 'x'));
  add("d.arrow", "ARROW1 cut");
  add("e.orc", "ORC cut");
  for (const char* name : {"a.parquet", "b.npy", "c.tar", "d.arrow", "e.orc"}) {
    EXPECT_THAT(refusal(std::string(kRoot) + name), HasSubstr(std::string(kRoot) + name));
    EXPECT_EQ(refusal(std::string(kRoot) + name).find("nothing is wrong"), std::string::npos);
  }
  EXPECT_EQ(refusal("s3://formats/none/"),
            "s3://formats/none/ does not exist (check the path in the job's YAML)");
}

}  // namespace
}  // namespace train::data
