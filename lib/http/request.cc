#include "lib/http/request.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "lib/base/utf8.h"

namespace train {
namespace {

Error invalid(std::string what) { return Error{Errc::InvalidArgument, std::move(what)}; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_plain_utf8(std::string_view text) {
  while (!text.empty()) {
    const CodePoint point = read_code_point(text);
    if (!point.valid || point.value < 0x20 || point.value == 0x7f) return false;
    text.remove_prefix(point.length);
  }
  return true;
}

/// Decode %XX, and in a query "+" too. Refuse control characters and what is not UTF-8.
Result<std::string> decode(std::string_view text, bool plus_is_space) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      const int high = i + 1 < text.size() ? hex_digit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return invalid("the address has a % without two hex digits");
      out += static_cast<char>(high << 4 | low);
      i += 2;
    } else {
      out += plus_is_space && text[i] == '+' ? ' ' : text[i];
    }
  }
  if (!is_plain_utf8(out)) return invalid("the address has control characters, or is not UTF-8");
  return out;
}

Result<std::vector<std::string>> parse_path(std::string_view path) {
  std::vector<std::string> parts;
  path.remove_prefix(1);
  while (!path.empty()) {
    const std::size_t end = path.find('/');
    TRY(std::string part, decode(path.substr(0, end), false));
    if (part.empty() || part == "." || part == ".." || part.find_first_of("/\\") != part.npos)
      return invalid("the address has an empty part, \".\", \"..\" or an encoded slash");
    parts.push_back(std::move(part));
    if (end == path.npos) break;
    path.remove_prefix(end + 1);  // a slash at the end adds no part
  }
  return parts;
}

Result<HttpQuery> parse_query(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> parameters;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('&'), text.size());
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (one.empty()) continue;
    if (parameters.size() == kQueryParametersMax)
      return invalid(fmt::format("the address has more than {} parameters", kQueryParametersMax));
    const std::size_t equals = std::min(one.find('='), one.size());
    TRY(std::string name, decode(one.substr(0, equals), true));
    TRY(std::string value, decode(one.substr(std::min(equals + 1, one.size())), true));
    parameters.emplace_back(std::move(name), std::move(value));
  }
  return HttpQuery(std::move(parameters));
}

}  // namespace

const std::string* HttpQuery::find(std::string_view name) const {
  for (const auto& [key, value] : parameters_)
    if (key == name) return &value;
  return nullptr;
}

std::string HttpQuery::text(std::string_view name) const {
  const std::string* found = find(name);
  return found != nullptr ? *found : std::string();
}

std::vector<std::string> HttpQuery::all(std::string_view name) const {
  std::vector<std::string> values;
  for (const auto& [key, value] : parameters_)
    if (key == name) values.push_back(value);
  return values;
}

Result<std::int64_t> HttpQuery::whole(std::string_view name, std::int64_t missing,
                                      std::int64_t least, std::int64_t most) const {
  const std::string* text = find(name);
  if (text == nullptr) return missing;
  std::int64_t value = 0;
  const auto [end, failed] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (failed == std::errc() && end == text->data() + text->size() && value >= least &&
      value <= most)
    return value;
  return invalid(fmt::format("{}={} must be a whole number from {} to {}", name,
                             utf8_text(*text, 64), least, most));
}

Result<std::optional<double>> HttpQuery::number(std::string_view name) const {
  const std::string* text = find(name);
  if (text == nullptr) return std::optional<double>();
  double value = 0;
  const auto [end, failed] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (failed == std::errc() && end == text->data() + text->size() && std::isfinite(value))
    return std::optional<double>(value);
  return invalid(fmt::format("{}={} must be a number", name, utf8_text(*text, 64)));
}

Result<HttpTarget> parse_target(std::string_view target) {
  if (target.size() > kTargetBytesMax)
    return invalid(fmt::format("the address has more than {} bytes", kTargetBytesMax));
  if (!target.starts_with('/')) return invalid("the address must begin with a slash");
  const std::size_t query = std::min(target.find('?'), target.size());
  HttpTarget parsed;
  TRY(parsed.path, parse_path(target.substr(0, query)));
  TRY(parsed.query, parse_query(target.substr(std::min(query + 1, target.size()))));
  return parsed;
}

std::string cookie_value(std::string_view cookies, std::string_view name) {
  while (!cookies.empty()) {
    const std::size_t end = std::min(cookies.find(';'), cookies.size());
    std::string_view one = cookies.substr(0, end);
    cookies.remove_prefix(std::min(end + 1, cookies.size()));
    while (one.starts_with(' ')) one.remove_prefix(1);
    const std::size_t equals = one.find('=');
    if (equals != one.npos && one.substr(0, equals) == name)
      return std::string(one.substr(equals + 1));
  }
  return {};
}

}  // namespace train
