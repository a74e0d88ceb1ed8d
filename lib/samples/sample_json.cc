#include "lib/samples/sample_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>

#include "lib/base/rank_ranges.h"
#include "lib/base/utf8.h"

namespace train {
namespace {

namespace json = boost::json;

constexpr std::size_t kRowsMax = 65'536;  // as in a message
constexpr std::size_t kTextBytesMax = 256;
constexpr std::int64_t kTimeMax = 7'289'654'400'000;  // 2201
constexpr double kExactMax = 1e15;
constexpr double kDecimalsMax = 1e6;  // larger numbers are written without decimals
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

// ---- writing

void append_integer(std::string& out, std::int64_t value) {
  char digits[24];
  const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
  out.append(digits, end);
}

/// Append at most three decimals, or null.
void append_number(std::string& out, double value) {
  if (!(std::abs(value) <= kExactMax)) {
    out += "null";
    return;
  }
  if (std::abs(value) >= kDecimalsMax) return append_integer(out, std::llround(value));
  std::int64_t thousandths = std::llround(value * 1000);
  if (thousandths < 0) {
    out += '-';
    thousandths = -thousandths;
  }
  append_integer(out, thousandths / 1000);
  std::int64_t rest = thousandths % 1000;
  if (rest == 0) return;
  out += '.';
  for (std::int64_t unit = 100; rest > 0; unit /= 10) {
    out += static_cast<char>('0' + rest / unit);
    rest %= unit;
  }
}

void append_text(std::string& out, std::string_view text) {
  const std::string valid = utf8_text(text, kTextBytesMax);
  out += json::serialize(json::string_view(valid.data(), valid.size()));
}

template <class Values, class Append>
void append_values(std::string& out, const Values& values, const Append& append) {
  out += '[';
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) out += ',';
    append(out, values[i]);
  }
  out += ']';
}

void append_rows(std::string& out, const SampleTable& table) {
  if (table.kind != SampleKind::Ranks) return append_values(out, table.rows, append_text);
  std::vector<std::int32_t> ranks(table.rows.size());
  for (std::size_t i = 0; i < ranks.size(); ++i)
    std::from_chars(table.rows[i].data(), table.rows[i].data() + table.rows[i].size(), ranks[i]);
  out += '"' + rank_ranges(ranks) + '"';
}

/// Append a column: one value if all rows have the same, else an array; nothing if none is known.
void append_column(std::string& out, const SampleColumn& column) {
  const auto append = [&](const auto& values, const auto& append_one, bool unknown) {
    if (values.empty() || unknown) return;
    out += ",\"";
    out += column.field->name;
    out += "\":";
    if (std::equal(values.begin() + 1, values.end(), values.begin()))
      append_one(out, values.front());
    else
      append_values(out, values, append_one);
  };
  const auto is_nan = [](double value) { return std::isnan(value); };
  const auto is_empty = [](const std::string& text) { return text.empty(); };
  if (column.field->is_text)
    append(column.texts, append_text,
           std::all_of(column.texts.begin(), column.texts.end(), is_empty));
  else
    append(column.numbers, append_number,
           std::all_of(column.numbers.begin(), column.numbers.end(), is_nan));
}

// ---- reading

/// Take `text` away from the front of `rest`.
bool skip(std::string_view& rest, std::string_view text) {
  if (!rest.starts_with(text)) return false;
  rest.remove_prefix(text.size());
  return true;
}

template <class Number>
bool take_number(std::string_view& rest, Number& value) {
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error != std::errc()) return false;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return true;
}

/// Parse "0-3,7": ascending.
bool parse_ranks(std::string_view text, std::vector<std::string>& rows) {
  std::int32_t next = 0;
  while (!text.empty()) {
    std::int32_t first = 0, last = 0;
    if (!take_number(text, first)) return false;
    last = first;
    if (skip(text, "-") && !take_number(text, last)) return false;
    if (first < next || last < first || last == std::numeric_limits<std::int32_t>::max() ||
        static_cast<std::size_t>(last - first) >= kRowsMax - rows.size())
      return false;
    for (std::int32_t rank = first; rank <= last; ++rank) rows.push_back(std::to_string(rank));
    next = last + 1;
    if (!text.empty() && (!skip(text, ",") || text.empty())) return false;
  }
  return !rows.empty();
}

std::string text_of(const json::value& value) {
  if (!value.is_string()) return {};
  return utf8_text({value.get_string().data(), value.get_string().size()}, kTextBytesMax);
}

double number_of(const json::value& value) {
  if (value.is_int64()) return static_cast<double>(value.get_int64());
  if (value.is_uint64()) return static_cast<double>(value.get_uint64());
  return value.is_double() ? value.get_double() : kUnknown;
}

bool read_rows(const json::value& value, SampleTable& table) {
  if (table.kind == SampleKind::Ranks)
    return value.is_string() &&
           parse_ranks({value.get_string().data(), value.get_string().size()}, table.rows);
  if (!value.is_array() || value.get_array().empty() || value.get_array().size() > kRowsMax)
    return false;
  for (const json::value& row : value.get_array()) table.rows.push_back(text_of(row));
  return true;
}

bool read_column(const json::value& value, std::size_t rows, SampleColumn& column) {
  const auto read = [&](auto& values, const auto& one) {
    if (!value.is_array()) {
      values.assign(rows, one(value));
      return true;
    }
    if (value.get_array().size() != rows) return false;
    values.reserve(rows);
    for (const json::value& element : value.get_array()) values.push_back(one(element));
    return true;
  };
  return column.field->is_text ? read(column.texts, text_of) : read(column.numbers, number_of);
}

}  // namespace

void append_sample_line(std::string& out, const SampleTable& table) {
  fmt::format_to(std::back_inserter(out), R"({{"t":{},"span":{},"attempt":{},"kind":"{}")",
                 table.end_ms, table.span_ms, table.attempt, to_string(table.kind));
  if (table.total > 0) fmt::format_to(std::back_inserter(out), R"(,"total":{})", table.total);
  out += ",\"rows\":";
  append_rows(out, table);
  for (const SampleColumn& column : table.columns) append_column(out, column);
  out += "}\n";
}

std::optional<SampleLineHead> parse_sample_head(std::string_view line) {
  SampleLineHead head;
  if (!skip(line, "{\"t\":") || !take_number(line, head.end_ms) || !skip(line, ",\"span\":") ||
      !take_number(line, head.span_ms) || !skip(line, ",\"attempt\":") ||
      !take_number(line, head.attempt) || !skip(line, ",\"kind\":\""))
    return std::nullopt;
  const auto kind = parse_sample_kind(line.substr(0, line.find('"')));
  if (!kind || head.end_ms < 0 || head.end_ms > kTimeMax || head.span_ms < 0 ||
      head.span_ms > head.end_ms)
    return std::nullopt;
  head.kind = *kind;
  return head;
}

std::optional<SampleTable> parse_sample_line(std::string_view line) {
  const auto head = parse_sample_head(line);
  if (!head || line.size() > kSampleLineBytesMax) return std::nullopt;
  json::error_code error;
  json::monotonic_resource memory;
  json::parse_options options;
  options.max_depth = 3;
  const json::value value = json::parse(line, error, &memory, options);
  if (error || !value.is_object()) return std::nullopt;
  const json::object& object = value.get_object();
  SampleTable table{.kind = head->kind,
                    .end_ms = head->end_ms,
                    .span_ms = head->span_ms,
                    .attempt = head->attempt};
  const json::value* rows = object.if_contains("rows");
  if (rows == nullptr || !read_rows(*rows, table)) return std::nullopt;
  if (const json::value* total = object.if_contains("total"); total != nullptr && total->is_int64())
    table.total = static_cast<std::uint32_t>(
        std::clamp<std::int64_t>(total->get_int64(), 0, std::numeric_limits<std::int32_t>::max()));
  for (const SampleField& field : sample_fields(table.kind)) {
    const json::value* column = object.if_contains(field.name);
    if (column == nullptr) continue;
    table.columns.push_back({.field = &field});
    if (!read_column(*column, table.rows.size(), table.columns.back())) return std::nullopt;
  }
  return table;
}

}  // namespace train
