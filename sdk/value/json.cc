#include "sdk/value/json.h"

#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

namespace train::json {
namespace {

/// Return the length in bytes of the well-formed UTF-8 sequence at `at`; 0 when there is none
/// (Unicode 15, table 3-7).
std::size_t utf8_length(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const auto follows = [&](std::size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return byte(i) >= low && byte(i) <= high;
  };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(at + 1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool second = follows(at + 1, first == 0xE0 ? 0xA0 : 0x80, first == 0xED ? 0x9F : 0xBF);
    return second && follows(at + 2) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool second = follows(at + 1, first == 0xF0 ? 0x90 : 0x80, first == 0xF4 ? 0x8F : 0xBF);
    return second && follows(at + 2) && follows(at + 3) ? 4 : 0;
  }
  return 0;
}

void append_double(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  const std::string_view written(text, static_cast<std::size_t>(end - text));
  out += written;
  if (written.find_first_of(".e") == std::string_view::npos) out += ".0";
}

void append_utf8(std::string& out, unsigned code_point) {
  const auto put = [&](unsigned byte) { out += static_cast<char>(byte); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

/// One pass over the text, by recursive descent.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Value whole() {
    Value value = parse_value(0);
    skip_space();
    if (at_ != text_.size()) fail("text after the end of the value");
    return value;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw Failure("invalid_argument", "JSON, byte " + std::to_string(at_) + ": " + why);
  }
  bool at_end() const { return at_ == text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  void skip_space() {
    while (!at_end() && (peek() == ' ' || peek() == '\n' || peek() == '\t' || peek() == '\r'))
      ++at_;
  }
  bool take(char wanted) {
    skip_space();
    if (at_end() || peek() != wanted) return false;
    ++at_;
    return true;
  }
  Value word(std::string_view wanted, Value value) {
    if (text_.substr(at_, wanted.size()) != wanted) fail("a value is wanted here");
    at_ += wanted.size();
    return value;
  }

  Value parse_value(int depth) {
    if (depth > kDepthMax) fail("nested deeper than " + std::to_string(kDepthMax) + " levels");
    skip_space();
    if (at_end()) fail("the text ends where a value is wanted");
    switch (peek()) {
      case '{':
        return parse_dict(depth);
      case '[':
        return parse_list(depth);
      case '"':
        return parse_string();
      case 't':
        return word("true", true);
      case 'f':
        return word("false", false);
      case 'n':
        return word("null", Value());
      case 'N':
        return word("NaN", std::numeric_limits<double>::quiet_NaN());
      case 'I':
        return word("Infinity", std::numeric_limits<double>::infinity());
      default:
        return parse_number();
    }
  }

  Value parse_dict(int depth) {
    Dict dict;
    ++at_;
    if (take('}')) return dict;
    do {
      skip_space();
      if (peek() != '"') fail("a key in double quotes is wanted here");
      const std::size_t key_at = at_;
      std::string key = parse_string();
      if (!take(':')) fail("':' is wanted here");
      Value value = parse_value(depth + 1);
      if (!dict.try_emplace(std::move(key), std::move(value)).second) {
        at_ = key_at;
        fail("a repeated key");
      }
    } while (take(','));
    if (!take('}')) fail("',' or '}' is wanted here");
    return dict;
  }

  Value parse_list(int depth) {
    List list;
    ++at_;
    if (take(']')) return list;
    do list.push_back(parse_value(depth + 1));
    while (take(','));
    if (!take(']')) fail("',' or ']' is wanted here");
    return list;
  }

  std::string parse_string() {
    std::string out;
    ++at_;
    while (true) {
      if (at_end()) fail("the text ends inside a string");
      const auto byte = static_cast<unsigned char>(peek());
      if (byte == '"') break;
      if (byte < 0x20) fail("a control character in a string; write it as an escape");
      if (byte == '\\') {
        parse_escape(out);
        continue;
      }
      const std::size_t length = utf8_length(text_, at_);
      if (length == 0) fail("bytes that are not UTF-8");
      out += text_.substr(at_, length);
      at_ += length;
    }
    ++at_;
    return out;
  }

  void parse_escape(std::string& out) {
    static constexpr std::string_view kNames = "\"\\/bfnrt";
    static constexpr std::string_view kBytes = "\"\\/\b\f\n\r\t";
    ++at_;
    if (peek() != 'u') {
      const std::size_t index = at_end() ? std::string_view::npos : kNames.find(peek());
      if (index == std::string_view::npos) fail("an unknown escape");
      out += kBytes[index];
      ++at_;
      return;
    }
    ++at_;
    unsigned unit = parse_hex4();
    if (unit >= 0xDC00 && unit <= 0xDFFF) fail("half a surrogate pair");
    if (unit >= 0xD800 && unit <= 0xDBFF) {
      if (text_.substr(at_, 2) != "\\u") fail("half a surrogate pair");
      at_ += 2;
      const unsigned low = parse_hex4();
      if (low < 0xDC00 || low > 0xDFFF) fail("half a surrogate pair");
      unit = 0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00);
    }
    append_utf8(out, unit);
  }

  unsigned parse_hex4() {
    unsigned unit = 0;
    const std::string_view digits = text_.substr(at_, 4);
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), unit, 16);
    if (digits.size() != 4 || parsed.ptr != digits.data() + 4)
      fail("four hex digits are wanted here");
    at_ += 4;
    return unit;
  }

  Value parse_number() {
    const std::size_t start = at_;
    if (peek() == '-') ++at_;
    if (peek() == 'I') return word("Infinity", -std::numeric_limits<double>::infinity());
    const std::size_t whole = digits();
    if (whole == 0) {
      at_ = start;
      fail("a value is wanted here");
    }
    if (whole > 1 && text_[at_ - whole] == '0') fail("a number with a leading zero");
    bool is_float = false;
    if (peek() == '.') {
      is_float = true;
      ++at_;
      if (digits() == 0) fail("a digit is wanted here");
    }
    if (peek() == 'e' || peek() == 'E') {
      is_float = true;
      ++at_;
      if (peek() == '+' || peek() == '-') ++at_;
      if (digits() == 0) fail("a digit is wanted here");
    }
    return number(text_.substr(start, at_ - start), is_float);
  }
  std::size_t digits() {
    const std::size_t start = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ - start;
  }
  Value number(std::string_view text, bool is_float) const {
    if (!is_float) {
      std::int64_t integer = 0;
      if (std::from_chars(text.data(), text.data() + text.size(), integer).ec == std::errc())
        return integer;
    }
    double real = 0;
    if (std::from_chars(text.data(), text.data() + text.size(), real).ec != std::errc()) {
      fail("a number beyond the range of a float");
    }
    return real;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

struct Writer {
  std::string& out;
  void operator()(std::monostate) const { out += "null"; }
  void operator()(bool v) const { out += v ? "true" : "false"; }
  void operator()(std::int64_t v) const { out += std::to_string(v); }
  void operator()(double v) const { append_double(out, v); }
  void operator()(const std::string& v) const { append_string(out, v); }
  void operator()(const List& list) const {
    out += '[';
    for (const Value& item : list) {
      if (&item != list.data()) out += ',';
      append(out, item);
    }
    out += ']';
  }
  void operator()(const Dict& dict) const {
    out += '{';
    for (auto entry = dict.begin(); entry != dict.end(); ++entry) {
      if (entry != dict.begin()) out += ',';
      append_string(out, entry->first);
      out += ':';
      append(out, entry->second);
    }
    out += '}';
  }
};

}  // namespace

void append(std::string& out, const Value& value) { std::visit(Writer{out}, value.storage()); }

void append_string(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const std::size_t length = utf8_length(text, at);
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += text[at];
    } else if (byte == '\n') {
      out += "\\n";
    } else if (byte == '\t') {
      out += "\\t";
    } else if (byte == '\r') {
      out += "\\r";
    } else if (byte < 0x20) {
      out += "\\u00";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else {
      out += text.substr(at, length);
    }
    at += length == 0 ? 1 : length;
  }
  out += '"';
}

Value parse(std::string_view text) { return Parser(text).whole(); }

}  // namespace train::json
