#include <fmt/format.h>
#include <train/error.h>
#include <train/histogram.h>

#include <optional>
#include <string>

#include "lib/base/utf8.h"
#include "lib/wire/reports.h"
#include "sdk/client/worker_session.h"

namespace train {

std::optional<HistogramCounter> sdk::begin_histogram(std::string_view name, int bins) {
  if (name.empty()) throw Failure("invalid_argument", "histogram: its name is empty");
  const std::string shown = utf8_text(name, kHistogramNameBytesMax);
  if (name.size() > kHistogramNameBytesMax) {
    throw Failure("invalid_argument",
                  fmt::format("histogram '{}': its name has {} bytes, at most {} are allowed",
                              shown, name.size(), kHistogramNameBytesMax));
  }
  if (bins < 1 || bins > static_cast<int>(kHistogramBinsMax)) {
    throw Failure("invalid_argument", fmt::format("histogram '{}': {} bins, 1 to {} are allowed",
                                                  shown, bins, kHistogramBinsMax));
  }
  const WorkerInfo& info = current_session().info();
  if (!info.supervised || info.rank != 0) return std::nullopt;
  return HistogramCounter(static_cast<std::size_t>(bins));
}

void sdk::add_histogram(std::string_view name, const Histogram& histogram) {
  current_session().add_histogram(utf8_text(name), histogram);
}

namespace {

template <class T>
void count(std::string_view name, std::span<const T> values, const HistogramOptions& options) {
  auto counter = sdk::begin_histogram(name, options.bins);
  if (!counter) return;
  counter->look(values);
  counter->count(values);
  sdk::add_histogram(name, counter->histogram());
}

}  // namespace

void histogram(std::string_view name, std::span<const float> values,
               const HistogramOptions& options) {
  count(name, values, options);
}

void histogram(std::string_view name, std::span<const double> values,
               const HistogramOptions& options) {
  count(name, values, options);
}

}  // namespace train
