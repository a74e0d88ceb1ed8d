// Metrics for Prometheus: collects samples in any order, and writes them family by family in its
// text format 0.0.4, which every scraper reads. prometheus-cpp writes the text. Pure.
//
//   # HELP trainrun_node_memory_available_bytes Memory that new programs can have.
//   # TYPE trainrun_node_memory_available_bytes gauge
//   trainrun_node_memory_available_bytes 8589934592
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace train {

inline constexpr const char* kPrometheusContentType = "text/plain; version=0.0.4; charset=utf-8";

class PrometheusText {
 public:
  enum class Type { Counter, Gauge };
  using Labels = std::vector<std::pair<std::string, std::string>>;

  /// Values of labels are cut to so many bytes.
  explicit PrometheusText(std::size_t label_bytes_max = 1024) : label_bytes_max_(label_bytes_max) {}

  /// Add a sample. The name has the unit at its end; that of a counter ends in _total. The family's
  /// first sample gives it its type and help. No two samples of a family have the same labels.
  void add(Type type, const std::string& name, const std::string& help, double value,
           Labels labels = {});
  void gauge(const std::string& name, const std::string& help, double value, Labels labels = {}) {
    add(Type::Gauge, name, help, value, std::move(labels));
  }
  void counter(const std::string& name, const std::string& help, double value, Labels labels = {}) {
    add(Type::Counter, name, help, value, std::move(labels));
  }

  /// Return the text, with the families in the order of their first samples.
  std::string text() const;

 private:
  struct Sample {
    Labels labels;
    double value = 0;
  };
  struct Family {
    Type type;
    std::string name, help;
    std::vector<Sample> samples = {};
  };
  std::size_t label_bytes_max_;
  std::vector<Family> families_;
  std::map<std::string, std::size_t> index_;  // of a family, by name
};

}  // namespace train
