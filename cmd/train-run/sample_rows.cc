#include "cmd/train-run/sample_rows.h"

#include <boost/json.hpp>
#include <charconv>
#include <cmath>

namespace train {
namespace {

namespace json = boost::json;

json::value row_name(SampleKind kind, const std::string& row) {
  if (kind != SampleKind::Ranks) return json::string(row);
  std::int64_t rank = 0;
  std::from_chars(row.data(), row.data() + row.size(), rank);
  return rank;
}

json::value number_json(double value) {
  constexpr double kExactMax = 1e15;
  if (!std::isfinite(value)) return nullptr;
  if (value == std::trunc(value) && std::abs(value) <= kExactMax)
    return static_cast<std::int64_t>(value);
  return value;
}

}  // namespace

json::array sample_rows(const SampleTable& table) {
  const char* what = table.kind == SampleKind::Ranks  ? "rank"
                     : table.kind == SampleKind::Gpus ? "gpu"
                     : table.kind == SampleKind::Data ? "operator"
                                                      : "node";
  json::array rows;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    json::object object{{what, row_name(table.kind, table.rows[row])}};
    for (const SampleColumn& column : table.columns) {
      json::value& value = object[column.field->name];
      if (column.field->is_text)
        value = json::string(column.texts[row]);
      else
        value = number_json(column.numbers[row]);
    }
    rows.push_back(std::move(object));
  }
  return rows;
}

}  // namespace train
