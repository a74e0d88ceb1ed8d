// Pictures in folders, one a file (JPEG or PNG). The rows are the files of the whole dataset in the
// order of their names; a unit is 64 of them. The columns: image, the file's bytes, which the map
// decode_image decodes when a batch needs them; label, the number of the sub-folder by name; path.
#include <arrow/array/builder_binary.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/buffer.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>
#include <arrow/util/utf8.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <set>

#include "lib/data/arrow_error.h"
#include "lib/data/formats/fixed_records.h"
#include "lib/data/formats/format_file.h"
#include "lib/data/plan/permutation.h"
#include "lib/data/read/fetcher.h"

namespace train::data {
namespace {

constexpr std::int64_t kUnitFiles = 64;
constexpr std::int64_t kFileBytesMax = 256 << 20;

struct FoundFile {
  DataFile data;
  std::size_t root_bytes = 0;  // FoundFiles
};

/// Return the first folder below the path that the spec gives, which names the class; "" if the
/// file lies in that path's folder itself.
std::string_view class_of(const FoundFile& file) {
  std::string_view below = std::string_view(file.data.path).substr(file.root_bytes);
  below.remove_prefix(std::min(below.find_first_not_of('/'), below.size()));
  const std::size_t slash = below.find('/');
  return slash == std::string_view::npos ? std::string_view() : below.substr(0, slash);
}

/// Return the names of the classes, sorted, and none if no file lies in a sub-folder.
Result<std::vector<std::string>> classes_of(const std::vector<FoundFile>& files) {
  std::set<std::string> names;
  const FoundFile* without = nullptr;
  for (const FoundFile& file : files) {
    const std::string_view name = class_of(file);
    if (name.empty())
      without = &file;
    else
      names.emplace(name);
  }
  if (!names.empty() && without != nullptr) {
    return Error{Errc::InvalidArgument,
                 fmt::format("{} lies in no sub-folder, which would tell its label, and other "
                             "pictures do",
                             without->data.path),
                 "move it into the sub-folder of its class, or remove it"};
  }
  return std::vector<std::string>(names.begin(), names.end());
}

/// Return the names as a JSON list, for the column's metadata.
std::string json_list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += text.empty() ? "[\"" : ", \"";
    for (const char c : name) {
      if (c == '"' || c == '\\') text += '\\';
      if (static_cast<unsigned char>(c) < 0x20)
        text += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
      else
        text += c;
    }
    text += '"';
  }
  return text.empty() ? "[]" : text + "]";
}

Error too_large(const FoundFile& file, std::int64_t bytes) {
  return Error{Errc::InvalidArgument,
               fmt::format("cannot read {}: it has {} bytes, and may have {}", file.data.path,
                           bytes, kFileBytesMax)};
}

Result<std::string> read_whole(const FoundFile& file) {
  TRY(auto start, read_start(file.data, kFileBytesMax));
  if (start.size > kFileBytesMax) return too_large(file, start.size);
  return std::move(start.bytes);
}

class ImageFiles final : public FormatFile {
 public:
  ImageFiles(std::vector<FoundFile> files, std::vector<std::string> classes, const FilesSpec& spec)
      : files_(std::move(files)), classes_(std::move(classes)) {
    arrow::FieldVector fields{arrow::field("image", arrow::binary())};
    if (!classes_.empty()) {
      fields.push_back(
          arrow::field("label", arrow::int64())
              ->WithMetadata(arrow::key_value_metadata({"classes"}, {json_list(classes_)})));
    }
    if (spec.include_paths) fields.push_back(arrow::field("path", arrow::utf8()));
    schema_ = arrow::schema(std::move(fields));
    for (auto left = static_cast<std::int64_t>(files_.size()); left > 0; left -= unit_rows_.back())
      unit_rows_.push_back(std::min(left, kUnitFiles));
    for (const FoundFile& file : files_) {
      const std::string_view name = std::string_view(file.data.path).substr(file.root_bytes);
      for (const char c : name) digest_ = mix(digest_, static_cast<unsigned char>(c));
      digest_ = mix(digest_, 256);
      if (file.data.place != nullptr) digest_ = mix(digest_, digest_of_version(file.data));
    }
  }

  const std::vector<std::int64_t>& unit_rows() const override { return unit_rows_; }
  const std::shared_ptr<arrow::Schema>& schema() const override { return schema_; }
  std::string_view unit_word() const override { return "part"; }
  bool has_many_files() const override { return true; }
  std::string describe(std::int64_t unit, std::int64_t row) const override {
    return files_[static_cast<std::size_t>(unit * kUnitFiles + row)].data.path;
  }
  void expect(std::int64_t unit, const arrow::Schema&) const override {
    std::vector<std::int64_t> all(
        static_cast<std::size_t>(unit_rows_[static_cast<std::size_t>(unit)]));
    std::iota(all.begin(), all.end(), 0);
    expect_rows(unit, all);
  }
  void expect_rows(std::int64_t unit, const std::vector<std::int64_t>& rows) const override {
    for (const std::int64_t row : rows) {
      const DataFile& file = files_[static_cast<std::size_t>(unit * kUnitFiles + row)].data;
      if (file.bytes <= kFetchBytesMax) expect_reads(file, {{.offset = 0, .bytes = file.bytes}});
    }
  }
  bool reads_rows() const override { return true; }
  std::uint64_t digest() const override { return digest_; }

  std::int64_t decoded_bytes(const arrow::Schema&) const override {
    std::int64_t bytes = 0;
    for (const FoundFile& file : files_) {
      std::error_code gone;
      const auto size = file.data.place != nullptr
                            ? static_cast<std::uintmax_t>(file.data.bytes)
                            : std::filesystem::file_size(file.data.path, gone);
      if (!gone) bytes += static_cast<std::int64_t>(std::min<std::uintmax_t>(size, kFileBytesMax));
    }
    return bytes;
  }

  Result<std::shared_ptr<arrow::Table>> read(std::int64_t unit,
                                             const arrow::Schema& selected) const override {
    const auto first = files_.begin() + unit * kUnitFiles;
    return table_of({first, first + unit_rows_[static_cast<std::size_t>(unit)]}, selected);
  }

  Result<std::shared_ptr<arrow::Table>> read_rows(std::int64_t unit,
                                                  const std::vector<std::int64_t>& rows,
                                                  const arrow::Schema& selected) const override {
    Files files;
    for (const std::int64_t row : rows)
      files.push_back(files_[static_cast<std::size_t>(unit * kUnitFiles + row)]);
    return table_of(files, selected);
  }

 private:
  using Files = std::vector<FoundFile>;
  using Column = Result<std::shared_ptr<arrow::Array>>;

  Result<std::shared_ptr<arrow::Table>> table_of(const Files& files,
                                                 const arrow::Schema& selected) const {
    arrow::ArrayVector columns;
    for (const auto& field : selected.fields()) {
      TRY(auto column, field->name() == "image"   ? read_images(files)
                       : field->name() == "label" ? read_labels(files)
                                                  : read_paths(files));
      columns.push_back(std::move(column));
    }
    return arrow::Table::Make(arrow::schema(selected.fields()), columns);
  }

  template <class Builder, class Value>
  static Column build(const Files& files, const Value& value) {
    static constexpr std::string_view kDoing = "no memory for the rows";
    Builder builder;
    for (const FoundFile& file : files) {
      TRY(const auto taken, value(file));
      if (const auto status = builder.Append(taken); !status.ok())
        return error_from(status, kDoing);
    }
    ARROW_TRY(auto array, kDoing, builder.Finish());
    return array;
  }

  static Column read_images(const Files& files) {
    const bool remote = std::any_of(files.begin(), files.end(), [](const FoundFile& file) {
      return file.data.place != nullptr;
    });
    if (!remote) return build<arrow::BinaryBuilder>(files, read_whole);
    std::vector<WantedRange> ranges;
    for (const FoundFile& file : files) {
      ARROW_TRY(const std::int64_t size, fmt::format("cannot open {}", file.data.path),
                size_of(file.data));
      if (size > kFileBytesMax) return too_large(file, size);
      ranges.push_back({&file.data, 0, size});
    }
    ARROW_TRY(const auto images, "cannot read pictures", read_all_ranges(ranges));
    auto next = images.begin();
    return build<arrow::BinaryBuilder>(files, [&](const FoundFile&) -> Result<std::string_view> {
      return std::string_view(**next++);
    });
  }

  Column read_labels(const Files& files) const {
    return build<arrow::Int64Builder>(files, [&](const FoundFile& file) -> Result<std::int64_t> {
      const auto found = std::lower_bound(classes_.begin(), classes_.end(), class_of(file));
      return found - classes_.begin();
    });
  }

  static Column read_paths(const Files& files) {
    arrow::util::InitializeUTF8();
    return build<arrow::StringBuilder>(files, [](const FoundFile& file) -> Result<std::string> {
      if (arrow::util::ValidateUTF8(file.data.path)) return file.data.path;
      return Error{Errc::InvalidArgument, fmt::format("the path {} is no UTF-8", file.data.path),
                   "rename it, or leave out include_paths"};
    });
  }

  Files files_;
  std::vector<std::string> classes_;
  std::uint64_t digest_ = 1;  // of the names, below their folders
  std::vector<std::int64_t> unit_rows_;
  std::shared_ptr<arrow::Schema> schema_;
};

}  // namespace

OpenedFile open_image_files(const FoundFiles& found, const FilesSpec& spec) {
  std::vector<FoundFile> files;
  for (std::size_t i = 0; i < found.files.size(); ++i)
    files.push_back({found.files[i], found.root_bytes[i]});
  TRY(auto classes, classes_of(files));
  return std::make_unique<ImageFiles>(std::move(files), std::move(classes), spec);
}

}  // namespace train::data
