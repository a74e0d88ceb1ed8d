#include "lib/observe/prometheus_text.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include "lib/base/utf8.h"

namespace train {

void PrometheusText::add(Type type, const std::string& name, const std::string& help, double value,
                         Labels labels) {
  const auto [at, is_new] = index_.emplace(name, families_.size());
  if (is_new) families_.push_back({type, name, help});
  for (auto& [label, text] : labels) text = utf8_text(text, label_bytes_max_);
  families_[at->second].samples.push_back({std::move(labels), value});
}

std::string PrometheusText::text() const {
  std::vector<prometheus::MetricFamily> families;
  for (const Family& family : families_) {
    const bool counts = family.type == Type::Counter;
    auto& shown = families.emplace_back();
    shown.name = family.name;
    shown.help = family.help;
    shown.type = counts ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge;
    for (const Sample& sample : family.samples) {
      prometheus::ClientMetric& metric = shown.metric.emplace_back();
      for (const auto& [label, text] : sample.labels) metric.label.push_back({label, text});
      (counts ? metric.counter.value : metric.gauge.value) = sample.value;
    }
  }
  return prometheus::TextSerializer().Serialize(families);
}

}  // namespace train
