// The content of a report in the form that all code of the project uses: flat names and plain
// values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace train {

/// Floats may be NaN or infinite. The SDK has flattened nested dicts to dotted names.
using MetricValue = std::variant<std::int64_t, double, bool, std::string>;
using Metrics = std::vector<std::pair<std::string, MetricValue>>;

/// Return the metric `wanted` if it is a number.
inline std::optional<double> number_of(const Metrics& metrics, std::string_view wanted) {
  for (const auto& [name, value] : metrics) {
    if (name != wanted) continue;
    if (const auto* integer = std::get_if<std::int64_t>(&value))
      return static_cast<double>(*integer);
    if (const auto* number = std::get_if<double>(&value)) return *number;
  }
  return std::nullopt;
}

struct ReportRecord {
  std::int32_t rank = 0;
  std::uint32_t attempt = 0;
  std::uint64_t report_seq = 0;  // the rank's n-th report of the attempt, from 1
  std::int64_t wall_us = 0;      // when report() was called, by the worker's clock
  bool has_checkpoint = false;
  Metrics metrics;
  bool operator==(const ReportRecord&) const = default;
};

}  // namespace train
