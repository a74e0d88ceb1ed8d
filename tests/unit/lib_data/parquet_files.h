// Makes real Parquet files for the tests with Arrow C++.
#pragma once

#include <arrow/array.h>
#include <arrow/builder.h>
#include <arrow/io/file.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace train::data {

/// A folder for one test, removed at its end.
class TestFolder {
 public:
  TestFolder() {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    path_ = std::filesystem::temp_directory_path() /
            (std::string("train_data_") + info->test_suite_name() + "_" + info->name() + "_" +
             std::to_string(getpid()));
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

template <class T>
T must(arrow::Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().ToString();
  return std::move(result).ValueOrDie();
}
inline void must(const arrow::Status& status) { ASSERT_TRUE(status.ok()) << status.ToString(); }

/// Return the columns id (int64: first, first + 1, …), name (string "row 7"), and pixels
/// (fixed-size list of 4 uint8, all id % 256).
inline std::shared_ptr<arrow::Table> numbered_rows(std::int64_t first, std::int64_t count) {
  arrow::Int64Builder ids;
  arrow::StringBuilder names;
  auto pixel = std::make_shared<arrow::UInt8Builder>();
  arrow::FixedSizeListBuilder pixels(arrow::default_memory_pool(), pixel, 4);
  for (std::int64_t id = first; id < first + count; ++id) {
    must(ids.Append(id));
    must(names.Append("row " + std::to_string(id)));
    must(pixels.Append());
    for (int i = 0; i < 4; ++i) must(pixel->Append(static_cast<std::uint8_t>(id % 256)));
  }
  const auto schema =
      arrow::schema({arrow::field("id", arrow::int64()), arrow::field("name", arrow::utf8()),
                     arrow::field("pixels", arrow::fixed_size_list(arrow::uint8(), 4))});
  return arrow::Table::Make(
      schema, {must(ids.Finish()), must(names.Finish()), must(pixels.Finish())}, count);
}

inline void write_parquet(const std::string& path, const std::shared_ptr<arrow::Table>& table,
                          std::int64_t rows_per_group) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  auto file = must(arrow::io::FileOutputStream::Open(path));
  const auto properties =
      parquet::ArrowWriterProperties::Builder().store_schema()->build();  // as pyarrow does
  must(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), file, rows_per_group,
                                  parquet::default_writer_properties(), properties));
  must(file->Close());
}

inline std::vector<std::int64_t> ids_of(const arrow::RecordBatch& batch) {
  const auto& column = static_cast<const arrow::Int64Array&>(*batch.GetColumnByName("id"));
  return {column.raw_values(), column.raw_values() + column.length()};
}

}  // namespace train::data
