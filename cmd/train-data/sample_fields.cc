#include "cmd/train-data/sample_fields.h"

#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/scalar.h>
#include <arrow/type.h>
#include <arrow/type_traits.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <train/config.h>
#include <train/dataset.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <functional>
#include <numeric>

#include "lib/base/utf8.h"
#include "sdk/data/column_view.h"

namespace train {
namespace {

using Kind = MemberField::Kind;

constexpr std::string_view kKey = "__key__";
constexpr std::size_t kKeyBytesMax = 1024;
// Endings of names by which members are decoded.
constexpr std::array<std::string_view, 6> kNumbers{"cls", "cls2", "count", "id", "index", "inx"};
constexpr std::array<std::string_view, 3> kTexts{"txt", "text", "transcript"};
constexpr std::array<std::string_view, 5> kPictures{"jpg", "jpeg", "png", "ppm", "webp"};

template <class Names>
bool ends_in(std::string_view name, const Names& names) {
  const std::string_view last = name.substr(name.rfind('.') + 1);
  return std::find(names.begin(), names.end(), last) != names.end();
}

bool is_bytes(const arrow::DataType& type) {
  return arrow::is_binary(type.id()) || type.id() == arrow::Type::LARGE_BINARY ||
         type.id() == arrow::Type::FIXED_SIZE_BINARY;
}

bool is_text(const arrow::DataType& type) {
  return type.id() == arrow::Type::STRING || type.id() == arrow::Type::LARGE_STRING;
}

/// Return whether the column has lists of numbers, to any depth.
bool is_array(const arrow::DataType& type) {
  if (type.id() == arrow::Type::EXTENSION)
    return is_array(*static_cast<const arrow::ExtensionType&>(type).storage_type());
  if (!arrow::is_list(type.id()) && type.id() != arrow::Type::FIXED_SIZE_LIST) return false;
  const auto& items = *static_cast<const arrow::BaseListType&>(type).value_type();
  return is_array(items) || arrow::is_integer(items.id()) || arrow::is_floating(items.id()) ||
         items.id() == arrow::Type::BOOL;
}

/// Return the place of the bytes in a picture as Hugging Face writes it, a struct {bytes, path}; −1
/// for any other type.
int bytes_of_struct(const arrow::DataType& type) {
  if (type.id() != arrow::Type::STRUCT) return -1;
  const int bytes = static_cast<const arrow::StructType&>(type).GetFieldIndex("bytes");
  return bytes >= 0 && is_bytes(*type.field(bytes)->type()) ? bytes : -1;
}

std::string_view view_of(const arrow::Array& column, std::int64_t row) {
  if (column.type_id() == arrow::Type::FIXED_SIZE_BINARY)
    return static_cast<const arrow::FixedSizeBinaryArray&>(column).GetView(row);
  if (arrow::is_large_binary_like(column.type_id()))
    return static_cast<const arrow::LargeBinaryArray&>(column).GetView(row);
  return static_cast<const arrow::BinaryArray&>(column).GetView(row);
}

Result<std::string> bytes_of(const arrow::Array& column, std::int64_t row) {
  if (const int bytes = bytes_of_struct(*column.type()); bytes >= 0) {
    const auto inner = static_cast<const arrow::StructArray&>(column).field(bytes);
    if (inner->IsNull(row)) return Error{Errc::InvalidArgument, "its bytes are missing"};
    return std::string(view_of(*inner, row));
  }
  return std::string(view_of(column, row));
}

/// Return "jpg" or "png" if the bytes are of such a picture, else "".
std::string_view picture_ending(std::string_view bytes) {
  if (bytes.starts_with("\xFF\xD8\xFF")) return "jpg";
  if (bytes.starts_with("\x89PNG")) return "png";
  return "";
}

/// Return the member's name for a column: the column's if that has such an ending, else the ending
/// for the column that has the common name of its kind, else both.
template <class Names>
std::string with_ending(const std::string& column, const Names& endings, std::string_view ending,
                        std::string_view common) {
  if (ends_in(column, endings)) return column;
  if (column == common) return std::string(ending);
  return fmt::format("{}.{}", column, ending);
}

MemberField field_of(const arrow::RecordBatch& first, int column) {
  const std::string& name = first.column_name(column);
  const arrow::Array& values = *first.column(column);
  const arrow::DataType& type = *values.type();
  MemberField field{.column = column, .name = name};
  if (is_bytes(type) || bytes_of_struct(type) >= 0) {
    const auto bytes = values.IsNull(0) ? Result<std::string>("") : bytes_of(values, 0);
    const std::string_view picture = picture_ending(bytes.has_value() ? *bytes : "");
    if (!picture.empty()) field.name = with_ending(name, kPictures, picture, "image");
  } else if (is_text(type)) {
    field.kind = Kind::Text;
    // Texts of JSON stay as they are.
    if (!name.ends_with(".json") && name != "json")
      field.name = with_ending(name, kTexts, "txt", "text");
  } else if (arrow::is_integer(type.id())) {
    field.kind = Kind::Number;
    field.name = with_ending(name, kNumbers, "cls", "label");
  } else if (is_array(type)) {
    field.kind = Kind::Array;
    field.name = with_ending(name, std::array<std::string_view, 1>{"npy"}, "npy", "");
  } else {
    field.kind = Kind::Json;
    field.name = with_ending(name, std::array<std::string_view, 1>{"json"}, "json", "");
  }
  return field;
}

Result<Unit> check_names(const SampleFields& fields, const arrow::RecordBatch& first) {
  std::vector<std::string> seen;
  for (const MemberField& field : fields.fields) {
    const std::string& column = first.column_name(field.column);
    const bool plain = !field.name.empty() && field.name.front() != '.' &&
                       field.name.find('/') == std::string::npos &&
                       field.name.find('\0') == std::string::npos &&
                       utf8_text(field.name) == field.name && field.name.size() <= kKeyBytesMax;
    if (!plain)
      return Error{Errc::InvalidArgument,
                   fmt::format("column '{}' cannot be the ending of a member's name", column),
                   "rename the column, or leave it out with --columns"};
    std::string lower = field.name;  // the webdataset package reads names so
    std::transform(lower.begin(), lower.end(), lower.begin(), [](char c) {
      return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    if (std::find(seen.begin(), seen.end(), lower) != seen.end())
      return Error{Errc::InvalidArgument,
                   fmt::format("two columns would be the member .{}; one is '{}'", lower, column),
                   "rename one of them, or leave it out with --columns"};
    seen.push_back(std::move(lower));
  }
  return Unit{};
}

Value json_of(const arrow::Array& column, std::int64_t row);

template <class Lists>
List json_of_list(const arrow::Array& column, std::int64_t row) {
  const auto& lists = static_cast<const Lists&>(column);
  List items;
  const std::int64_t first = lists.value_offset(row);
  for (std::int64_t i = first; i < first + lists.value_length(row); ++i)
    items.push_back(json_of(*lists.values(), i));
  return items;
}

Value json_of(const arrow::Array& column, std::int64_t row) {
  if (column.IsNull(row)) return {};
  switch (column.type_id()) {
    case arrow::Type::BOOL:
      return static_cast<const arrow::BooleanArray&>(column).Value(row);
    case arrow::Type::INT64:
      return static_cast<const arrow::Int64Array&>(column).Value(row);
    case arrow::Type::FLOAT:
      return static_cast<const arrow::FloatArray&>(column).Value(row);
    case arrow::Type::DOUBLE:
      return static_cast<const arrow::DoubleArray&>(column).Value(row);
    case arrow::Type::STRING:
    case arrow::Type::LARGE_STRING:
      return utf8_text(view_of(column, row));
    case arrow::Type::LIST:
      return json_of_list<arrow::ListArray>(column, row);
    case arrow::Type::LARGE_LIST:
      return json_of_list<arrow::LargeListArray>(column, row);
    case arrow::Type::FIXED_SIZE_LIST:
      return json_of_list<arrow::FixedSizeListArray>(column, row);
    case arrow::Type::STRUCT: {
      const auto& fields = static_cast<const arrow::StructArray&>(column);
      Dict json;
      for (int i = 0; i < fields.num_fields(); ++i)
        json[utf8_text(fields.struct_type()->field(i)->name())] = json_of(*fields.field(i), row);
      return json;
    }
    default: {
      const auto scalar = column.GetScalar(row);
      if (!scalar.ok()) return {};
      const std::string text = (*scalar)->ToString();
      std::int64_t whole = 0;
      const auto read = std::from_chars(text.data(), text.data() + text.size(), whole);
      if (arrow::is_integer(column.type_id()) && read.ec == std::errc()) return whole;
      return utf8_text(text);
    }
  }
}

/// Return NumPy's name of the type.
std::string numpy_type(sdk::ElementType type) {
  switch (type) {
    case sdk::ElementType::Bool:
      return "|b1";
    case sdk::ElementType::UInt8:
      return "|u1";
    case sdk::ElementType::Int8:
      return "|i1";
    case sdk::ElementType::Int16:
      return "<i2";
    case sdk::ElementType::Int32:
      return "<i4";
    case sdk::ElementType::Int64:
      return "<i8";
    case sdk::ElementType::Float16:
      return "<f2";
    case sdk::ElementType::Float32:
      return "<f4";
    case sdk::ElementType::Float64:
      return "<f8";
  }
  return "";
}

/// Return a .npy file (version 1.0) of the row's array.
Result<std::string> numpy_of(const arrow::RecordBatch& rows, int column, std::int64_t row) {
  static_assert(std::endian::native == std::endian::little);
  const auto alone =
      arrow::RecordBatch::Make(arrow::schema({rows.schema()->field(column)}), 1,
                               arrow::ArrayVector{rows.column(column)->Slice(row, 1)});
  try {
    const auto views = sdk::column_views(Batch{alone, 1});
    const sdk::ColumnView& view = views.front();
    const std::string type = numpy_type(view.type);
    const std::vector<std::int64_t> shape(view.shape.begin() + 1, view.shape.end());
    const std::int64_t count =
        std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}",
                                     type, fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
    constexpr std::size_t kBefore = 10, kAlign = 64;  // magic, version and length; of the data
    const std::size_t end = (kBefore + header.size() + 1 + kAlign - 1) / kAlign * kAlign;
    header.resize(end - kBefore - 1, ' ');
    header += '\n';
    std::string file("\x93NUMPY\x01\x00", 8);
    file += static_cast<char>(header.size() & 0xFF);
    file += static_cast<char>(header.size() >> 8);
    file += header;
    const auto width = static_cast<std::int64_t>(type.back() - '0');
    file.append(static_cast<const char*>(view.data), static_cast<std::size_t>(count * width));
    return file;
  } catch (const Failure& why) {
    return Error{Errc::InvalidArgument, why.what()};
  }
}

}  // namespace

Result<SampleFields> sample_fields(const arrow::RecordBatch& first) {
  SampleFields fields;
  for (int i = 0; i < first.num_columns(); ++i) {
    if (first.column_name(i) == kKey && is_text(*first.column(i)->type()))
      fields.key_column = i;
    else
      fields.fields.push_back(field_of(first, i));
  }
  if (fields.fields.empty())
    return Error{Errc::InvalidArgument, "there is no column beside the key"};
  TRY_VOID(check_names(fields, first));
  return fields;
}

Result<std::string> sample_content(const MemberField& field, const arrow::RecordBatch& rows,
                                   std::int64_t row) {
  const arrow::Array& column = *rows.column(field.column);
  if (column.IsNull(row) && field.kind != Kind::Json)
    return Error{Errc::InvalidArgument, "its value is missing, and samples have no missing values"};
  switch (field.kind) {
    case Kind::Bytes:
      return bytes_of(column, row);
    case Kind::Text:
      return std::string(view_of(column, row));
    case Kind::Number:
    case Kind::Json:
      return to_json(json_of(column, row));
    case Kind::Array:
      return numpy_of(rows, field.column, row);
  }
  return Error{Errc::Internal, "a member of an unknown kind"};
}

Result<std::string> sample_key(const SampleFields& fields, const arrow::RecordBatch& rows,
                               std::int64_t row, std::int64_t number) {
  if (fields.key_column < 0) return fmt::format("{:09}", number);
  const arrow::Array& column = *rows.column(fields.key_column);
  if (column.IsNull(row)) return Error{Errc::InvalidArgument, "its __key__ is missing"};
  std::string key(view_of(column, row));
  const std::string_view last = std::string_view(key).substr(key.rfind('/') + 1);
  if (last.empty() || last.find('.') != std::string_view::npos || key.front() == '/' ||
      key.size() > kKeyBytesMax || key.find('\0') != std::string::npos)
    return Error{Errc::InvalidArgument, fmt::format("its __key__ '{}' cannot be a sample's", key)};
  return key;
}

}  // namespace train
