#include "lib/observe/prometheus_text.h"

#include <fmt/format.h>

#include <cmath>

#include "lib/base/utf8.h"

namespace train {
namespace {

std::string escaped(std::string_view text, bool quotes) {
  std::string out;
  for (const char c : utf8_text(text)) {
    if (c == '\\' || (quotes && c == '"')) out += '\\';
    out += c == '\n' ? "\\n" : std::string(1, c);
  }
  return out;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

}  // namespace

PrometheusText& PrometheusText::family(std::string_view name, Type type, std::string_view help) {
  name_ = name;
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, escaped(help, false), name,
                       type == Type::Counter ? "counter" : "gauge");
  return *this;
}

PrometheusText& PrometheusText::sample(double value, std::span<const Label> labels) {
  text_ += name_;
  for (std::size_t i = 0; i < labels.size(); ++i)
    text_ += fmt::format("{}{}=\"{}\"", i == 0 ? '{' : ',', labels[i].first,
                         escaped(labels[i].second, true));
  if (!labels.empty()) text_ += '}';
  text_ += fmt::format(" {}\n", number(value));
  return *this;
}

}  // namespace train
