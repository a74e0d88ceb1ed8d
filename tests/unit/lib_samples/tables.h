// Short ways to write tables of samples in tests.
#pragma once

#include <stdlib.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "lib/samples/sample_json.h"
#include "lib/samples/sample_table.h"

namespace train {

inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
inline constexpr std::int64_t kNoon = 1'800'000'000'000;

inline void add(SampleTable& table, std::string_view field, std::vector<double> numbers) {
  table.columns.push_back(
      {.field = find_sample_field(table.kind, field), .numbers = std::move(numbers)});
}
inline void add(SampleTable& table, std::string_view field,
                std::initializer_list<const char*> texts) {
  table.columns.push_back({.field = find_sample_field(table.kind, field),
                           .texts = std::vector<std::string>(texts.begin(), texts.end())});
}

/// A table of ranks with one column, at a second after kNoon.
inline SampleTable ranks_at(int second, std::vector<std::string> rows, std::string_view field,
                            std::vector<double> numbers) {
  SampleTable table{
      .end_ms = kNoon + std::int64_t{1000} * second, .span_ms = 1000, .rows = std::move(rows)};
  add(table, field, std::move(numbers));
  return table;
}

inline std::string line_of(const SampleTable& table) {
  std::string line;
  append_sample_line(line, table);
  return line;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "trainrun-samples-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline void put(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

inline std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  return content.str();
}

}  // namespace train
