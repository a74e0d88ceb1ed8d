#include "sdk/trainer/pass_metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sdk/trainer/run_folder.h"

namespace train::trainer {
namespace {

constexpr const char* kSamples = "num_samples";
constexpr double kCountMax = 9e18;  // fits an std::int64_t

double number_in(const Dict& metrics, const std::string& name) {
  const auto found = metrics.find(name);
  return found != metrics.end() && found->second.is_number()
             ? found->second.as<double>()
             : std::numeric_limits<double>::quiet_NaN();
}

/// Return how much a rank counts in the means.
double weight_of(const Dict& metrics) {
  const auto samples = metrics.find(kSamples);
  if (samples == metrics.end()) return 1;
  const double count = number_in(metrics, kSamples);
  return count > 0 && std::isfinite(count) ? count : 0;
}

}  // namespace

std::vector<Dict> pass_metrics(const std::string& call, const std::map<int, Value>& answers) {
  const auto corrupt = [&] {
    return Failure("corrupt", call + ": the workers' answers are not those of a TrainingOperator");
  };
  std::vector<Dict> ranks;
  for (const auto& [rank, value] : answers) {
    if (!value.is_dict()) throw corrupt();
    const Dict answer = value.as<Dict>();
    if (const auto refused = text_of(answer, "refused"))
      throw Failure(text_of(answer, "kind").value_or("invalid_argument"), call + ": " + *refused);
    const List again = list_of(answer, "again");
    const auto metrics = answer.find("metrics");
    if (!again.empty()) {
      ranks.clear();
      for (const Value& one : again) ranks.push_back(one.as<Dict>());
      return ranks;
    }
    if (metrics == answer.end() || !metrics->second.is_dict()) throw corrupt();
    ranks.push_back(metrics->second.as<Dict>());
  }
  if (ranks.empty()) throw corrupt();
  return ranks;
}

Dict reduced_metrics(const std::vector<Dict>& ranks) {
  Dict result = ranks.front();
  for (auto& [name, value] : result) {
    const bool number = value.is_null() || value.is_number();
    if (!number || name == "epoch" || name == "batch_count") continue;
    double sum = 0, weights = 0;
    for (const Dict& rank : ranks) {
      const double weight = weight_of(rank);
      if (weight > 0) sum += weight * number_in(rank, name);
      weights += weight;
    }
    if (name == kSamples)
      value = static_cast<std::int64_t>(std::min(weights, kCountMax));
    else if (weights > 0)
      value = sum / weights;
  }
  return result;
}

}  // namespace train::trainer
