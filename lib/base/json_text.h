// This file writes JSON text fast, and so that a terminal can show it: the report log, `--output
// json`, exit.json and the JSON log. It escapes steering characters (utf8.h), and replaces bytes
// that are not UTF-8 by U+FFFD, and NaN and infinity by null, since JSON has neither. To read JSON,
// we use Boost.JSON.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "lib/base/metrics.h"

namespace train {

void append_json_string(std::string& out, std::string_view text);
void append_json_number(std::string& out, std::int64_t value);
void append_json_number(std::string& out, std::uint64_t value);
/// Append the shortest digits that read back as the same double, always with a point or an
/// exponent: "1.0", not "1".
void append_json_number(std::string& out, double value);
void append_json_value(std::string& out, const MetricValue& value);
/// Append an object: {"loss":0.5,"epoch":3}
void append_json_object(std::string& out, const Metrics& metrics);

/// Builds one JSON document in order: object(), key(), value() …, end(). It inserts the commas, and
/// indents by two if requested.
class JsonWriter {
 public:
  enum class Layout { OneLine, Indented };
  explicit JsonWriter(Layout layout = Layout::OneLine) : indented_(layout == Layout::Indented) {}

  JsonWriter& object() { return open('{'); }
  JsonWriter& array() { return open('['); }
  JsonWriter& end();
  JsonWriter& key(std::string_view name);
  JsonWriter& value(std::string_view text);
  JsonWriter& value(const char* text) { return value(std::string_view(text)); }
  JsonWriter& value(const std::string& text) { return value(std::string_view(text)); }
  JsonWriter& value(bool flag);
  JsonWriter& value(double number);
  JsonWriter& value(std::integral auto number) {
    return integer(static_cast<std::int64_t>(number));
  }
  JsonWriter& value(const MetricValue& metric);
  JsonWriter& value(const Metrics& metrics);
  JsonWriter& null();
  /// Add JSON text that is known to be valid.
  JsonWriter& raw(std::string_view json);
  template <class T>
  JsonWriter& member(std::string_view name, const T& what) {
    key(name);
    return value(what);
  }
  /// Add a member: a string, or null if `text` is empty.
  JsonWriter& text_or_null(std::string_view name, std::string_view text) {
    key(name);
    return text.empty() ? null() : value(text);
  }

  std::string take() && { return std::move(out_); }

 private:
  JsonWriter& open(char bracket);
  JsonWriter& integer(std::int64_t number);
  void before_value();
  void new_line();

  std::string out_;
  std::string open_;  // the open brackets, outermost first
  bool indented_;
  bool first_ = true;  // the innermost bracket is still empty
  bool after_key_ = false;
};

}  // namespace train
