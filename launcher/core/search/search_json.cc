#include "launcher/core/search/search_json.h"

#include <cmath>

namespace train {

namespace json = boost::json;

json::value json_number(const std::optional<double>& number) {
  if (!number || !std::isfinite(*number)) return nullptr;
  return *number;
}

json::object json_range(const Parameter& parameter) {
  json::object range;
  switch (parameter.kind) {
    case ParameterKind::Const:
      return {{"const", parameter.values.front()}};
    case ParameterKind::Choice:
      return {{"choice", parameter.values}};
    case ParameterKind::Uniform:
      range["uniform"] = json::array{parameter.low, parameter.high};
      break;
    case ParameterKind::LogUniform:
      range["log_uniform"] = json::array{parameter.low, parameter.high};
      break;
    case ParameterKind::Int:
      range["int"] = json::array{parameter.least, parameter.greatest};
      break;
  }
  if (parameter.count > 0) range["count"] = parameter.count;
  return range;
}

}  // namespace train
