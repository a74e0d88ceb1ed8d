// Writes metrics in Prometheus' text format 0.0.4, which every scraper reads. Pure.
//
//   # HELP trainrun_node_memory_available_bytes Memory that new programs can have.
//   # TYPE trainrun_node_memory_available_bytes gauge
//   trainrun_node_memory_available_bytes 8589934592
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace train {

inline constexpr const char* kPrometheusContentType = "text/plain; version=0.0.4; charset=utf-8";

class PrometheusText {
 public:
  enum class Type { Counter, Gauge };
  using Label = std::pair<std::string_view, std::string_view>;

  /// Begin a family. The name has the unit at its end; that of a counter ends in _total.
  PrometheusText& family(std::string_view name, Type type, std::string_view help);
  /// Add a sample of the family that was begun last. No two have the same labels.
  PrometheusText& sample(double value, std::span<const Label> labels);
  PrometheusText& sample(double value, std::initializer_list<Label> labels = {}) {
    return sample(value, std::span<const Label>(labels.begin(), labels.size()));
  }

  std::string take() && { return std::move(text_); }

 private:
  std::string text_, name_;
};

}  // namespace train
