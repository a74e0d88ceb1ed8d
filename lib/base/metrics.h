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

#include "lib/base/histogram.h"

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

/// Return the metric `epoch`, cut to a whole number; −1 if it is missing, not finite or negative.
inline std::int64_t epoch_of(const Metrics& metrics) {
  constexpr double kEnd = 0x1p63;  // the first number that no int64 holds
  for (const auto& [name, value] : metrics) {
    if (name != "epoch") continue;
    const auto* whole = std::get_if<std::int64_t>(&value);
    if (whole != nullptr && *whole >= 0) return *whole;
    const auto* real = std::get_if<double>(&value);
    if (real != nullptr && *real >= 0 && *real < kEnd) return static_cast<std::int64_t>(*real);
  }
  return -1;
}

struct ReportRecord {
  std::int32_t rank = 0;
  std::uint32_t attempt = 0;
  std::uint64_t report_seq = 0;  // the rank's n-th report of the attempt, from 1
  std::int64_t wall_us = 0;      // when report() was called, by the worker's clock
  bool has_checkpoint = false;
  Metrics metrics;
  Histograms histograms = {};  // of rank 0; not part of metrics.jsonl
  bool operator==(const ReportRecord&) const = default;
};

}  // namespace train
