#include "sdk/client/metrics_dict.h"

#include <algorithm>
#include <utility>

#include "lib/base/utf8.h"

namespace train::sdk {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& what) {
  throw Failure("invalid_argument",
                "report: metric '" + name + "' is " + what +
                    " (a metric is a number, a bool or a string, or a dict of such)");
}

void add(std::string name, const Value& value, Metrics& out) {
  if (name.empty() || name.back() == '.')
    throw Failure("invalid_argument", "report: a metric in '" + name + "' has an empty name");
  struct Visitor {
    std::string& name;
    Metrics& out;
    void operator()(std::monostate) const { refuse(name, "null"); }
    void operator()(const List& list) const {
      refuse(name, "a list of " + std::to_string(list.size()));
    }
    void operator()(const Dict& dict) const {
      for (const auto& [key, item] : dict) add(name + "." + utf8_text(key), item, out);
    }
    void operator()(bool v) const { out.emplace_back(std::move(name), v); }
    void operator()(std::int64_t v) const { out.emplace_back(std::move(name), v); }
    void operator()(double v) const { out.emplace_back(std::move(name), v); }
    void operator()(const std::string& v) const { out.emplace_back(std::move(name), utf8_text(v)); }
  };
  std::visit(Visitor{name, out}, value.storage());
}

// Refuse two spellings of one name ({"a": {"b": 1}, "a.b": 2}, or "\xff" and "\xfe"): one of the
// values would be lost.
void refuse_repeats(const Metrics& metrics) {
  std::vector<std::string_view> names;
  names.reserve(metrics.size());
  for (const auto& [name, value] : metrics) names.push_back(name);
  std::sort(names.begin(), names.end());
  const auto repeat = std::adjacent_find(names.begin(), names.end());
  if (repeat != names.end())
    throw Failure("invalid_argument",
                  "report: two metrics have the name '" + std::string(*repeat) + "'");
}

}  // namespace

Metrics flatten(const Dict& metrics) {
  Metrics out;
  out.reserve(metrics.size());
  bool may_repeat = false;
  for (const auto& [given, value] : metrics) {
    std::string name = utf8_text(given);
    may_repeat = may_repeat || value.is_dict() || name != given;
    add(std::move(name), value, out);
  }
  if (may_repeat) refuse_repeats(out);
  return out;
}

Dict to_dict(const Metrics& metrics) {
  Dict dict;
  for (const auto& [name, value] : metrics) {
    std::visit([&, &name = name](const auto& v) { dict.insert_or_assign(name, Value(v)); }, value);
  }
  return dict;
}

std::string to_line(const Metrics& metrics) {
  std::string line;
  for (const auto& [name, value] : metrics) {
    if (!line.empty()) line += ' ';
    line += name;
    line += '=';
    // show floats that JSON cannot write, too
    const double* real = std::get_if<double>(&value);
    if (real != nullptr && *real != *real) {
      line += "nan";
    } else if (real != nullptr && *real - *real != 0) {
      line += *real > 0 ? "inf" : "-inf";
    } else {
      std::visit([&](const auto& v) { line += to_json(Value(v)); }, value);
    }
  }
  return line;
}

}  // namespace train::sdk
