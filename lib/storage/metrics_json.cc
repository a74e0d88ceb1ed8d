#include "lib/storage/metrics_json.h"

#include <boost/json.hpp>
#include <cmath>
#include <cstdint>
#include <limits>

#include "lib/base/utf8.h"

namespace train {
namespace json = boost::json;

MetricsJson metrics_to_json(const Metrics& metrics) {
  MetricsJson out;
  for (const auto& [given, value] : metrics) {
    const std::string name = utf8_text(given);
    out.non_finite.erase(name);
    const double* number = std::get_if<double>(&value);
    if (number != nullptr && !std::isfinite(*number)) {
      out.metrics[name] = nullptr;
      out.non_finite[name] = std::isnan(*number) ? "nan" : *number > 0 ? "inf" : "-inf";
    } else if (const auto* text = std::get_if<std::string>(&value)) {
      out.metrics[name] = utf8_text(*text);
    } else {
      auto& field = out.metrics[name];
      std::visit([&](const auto& plain) { field = plain; }, value);
    }
  }
  return out;
}

Metrics metrics_from_json(const json::object& metrics, const json::object& non_finite) {
  Metrics out;
  for (const auto& member : metrics) {
    const std::string name(member.key());
    const json::value& value = member.value();
    if (value.is_int64()) out.emplace_back(name, value.get_int64());
    if (value.is_double()) out.emplace_back(name, value.get_double());
    if (value.is_uint64()) out.emplace_back(name, static_cast<double>(value.get_uint64()));
    if (value.is_bool()) out.emplace_back(name, value.get_bool());
    if (value.is_string()) out.emplace_back(name, std::string(value.get_string()));
    if (!value.is_null()) continue;
    const json::value* mark = non_finite.if_contains(name);
    if (mark == nullptr || !mark->is_string()) continue;
    const std::string_view kind = mark->get_string();
    if (kind == "nan") out.emplace_back(name, std::numeric_limits<double>::quiet_NaN());
    if (kind == "inf") out.emplace_back(name, std::numeric_limits<double>::infinity());
    if (kind == "-inf") out.emplace_back(name, -std::numeric_limits<double>::infinity());
  }
  return out;
}

void drop_non_finite(json::value& value) {
  if (value.is_object()) {
    for (auto& member : value.get_object()) drop_non_finite(member.value());
  } else if (value.is_array()) {
    for (json::value& element : value.get_array()) drop_non_finite(element);
  } else if (value.is_double() && !std::isfinite(value.get_double())) {
    value = nullptr;
  }
}

}  // namespace train
