#include "lib/base/json_text.h"

#include <array>
#include <charconv>
#include <cmath>

#include "lib/base/utf8.h"

namespace train {
namespace {

// Bytes that need no escape in a JSON string: printable ASCII except the quote and the backslash.
constexpr std::array<bool, 256> kPlain = [] {
  std::array<bool, 256> plain{};
  for (int c = 0x20; c < 0x7F; ++c) plain[static_cast<std::size_t>(c)] = c != '"' && c != '\\';
  return plain;
}();

void append_escape(std::string& out, std::uint32_t code_point) {
  switch (code_point) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\r':
      out += "\\r";
      return;
    default:
      break;
  }
  constexpr char kHex[] = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kHex[(code_point >> shift) & 0xF];
}

template <class Integer>
void append_digits(std::string& out, Integer value) {
  std::array<char, 24> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), end);
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    std::size_t plain = 0;
    while (plain < text.size() && kPlain[static_cast<std::uint8_t>(text[plain])]) ++plain;
    out.append(text.data(), plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    const CodePoint next = read_code_point(text);
    if (!next.valid) {
      out += "\xEF\xBF\xBD";
    } else if (is_steering(next.value) || next.value == '"' || next.value == '\\') {
      append_escape(out, next.value);
    } else {
      out.append(text.data(), next.length);
    }
    text.remove_prefix(next.length);
  }
  out += '"';
}

void append_json_number(std::string& out, std::int64_t value) { append_digits(out, value); }
void append_json_number(std::string& out, std::uint64_t value) { append_digits(out, value); }

void append_json_number(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  const std::string_view written(digits.data(), static_cast<std::size_t>(end - digits.data()));
  out += written;
  if (written.find_first_of(".e") == std::string_view::npos) out += ".0";
}

void append_json_value(std::string& out, const MetricValue& value) {
  if (const auto* integer = std::get_if<std::int64_t>(&value))
    return append_json_number(out, *integer);
  if (const auto* number = std::get_if<double>(&value)) return append_json_number(out, *number);
  if (const auto* flag = std::get_if<bool>(&value)) {
    out += *flag ? "true" : "false";
    return;
  }
  append_json_string(out, std::get<std::string>(value));
}

void append_json_object(std::string& out, const Metrics& metrics) {
  out += '{';
  bool first = true;
  for (const auto& [name, value] : metrics) {
    if (!first) out += ',';
    first = false;
    append_json_string(out, name);
    out += ':';
    append_json_value(out, value);
  }
  out += '}';
}

JsonWriter& JsonWriter::open(char bracket) {
  before_value();
  out_ += bracket;
  open_ += bracket;
  first_ = true;
  return *this;
}

JsonWriter& JsonWriter::end() {
  const char closing = open_.back() == '{' ? '}' : ']';
  open_.pop_back();
  if (!first_) new_line();
  out_ += closing;
  first_ = false;
  if (open_.empty() && indented_) out_ += '\n';
  return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  before_value();
  append_json_string(out_, name);
  out_ += indented_ ? ": " : ":";
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::value(std::string_view text) {
  before_value();
  append_json_string(out_, text);
  return *this;
}

JsonWriter& JsonWriter::value(bool flag) { return raw(flag ? "true" : "false"); }

JsonWriter& JsonWriter::value(double number) {
  before_value();
  append_json_number(out_, number);
  return *this;
}

JsonWriter& JsonWriter::integer(std::int64_t number) {
  before_value();
  append_json_number(out_, number);
  return *this;
}

JsonWriter& JsonWriter::value(const MetricValue& metric) {
  before_value();
  append_json_value(out_, metric);
  return *this;
}

JsonWriter& JsonWriter::value(const Metrics& metrics) {
  object();
  for (const auto& [name, metric] : metrics) member(name, metric);
  return end();
}

JsonWriter& JsonWriter::null() { return raw("null"); }

JsonWriter& JsonWriter::raw(std::string_view json) {
  before_value();
  out_ += json;
  return *this;
}

void JsonWriter::before_value() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (open_.empty()) return;
  if (!first_) out_ += ',';
  first_ = false;
  new_line();
}

void JsonWriter::new_line() {
  if (!indented_) return;
  out_ += '\n';
  out_.append(open_.size() * 2, ' ');
}

}  // namespace train
