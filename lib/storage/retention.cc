#include "lib/storage/retention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lib/base/check.h"

namespace train {
namespace {

std::string names_of(const Metrics& metrics) {
  constexpr std::size_t kNamesShown = 20;
  std::string names;
  std::size_t shown = 0;
  for (const auto& [name, value] : metrics) {
    if (shown == kNamesShown) return fmt::format("{} and {} more", names, metrics.size() - shown);
    names += fmt::format("{}'{}'", shown++ == 0 ? "" : ", ", escape_name(name));
  }
  return names.empty() ? "none" : names;
}

/// Order the best first; among equal ones, the newer first.
bool better(const ScoredCheckpoint& a, const ScoredCheckpoint& b, BestIs best_is) {
  if (a.score.has_value() != b.score.has_value()) return a.score.has_value();
  if (a.score && *a.score != *b.score)
    return best_is == BestIs::Highest ? *a.score > *b.score : *a.score < *b.score;
  return a.number > b.number;
}

}  // namespace

Score score_of(const RetentionPolicy& policy, CheckpointNumber checkpoint, const Metrics& metrics) {
  if (!policy.score_attribute) return {};
  const auto none = [&](std::string_view why) {
    return Score{
        std::nullopt,
        fmt::format("{} {}; it counts as the worst, since checkpoint_score_attribute is '{}' "
                    "(metrics reported: {})",
                    checkpoint_name(checkpoint), why, *policy.score_attribute, names_of(metrics))};
  };
  const auto found = std::find_if(metrics.rbegin(), metrics.rend(), [&](const auto& metric) {
    return metric.first == *policy.score_attribute;
  });
  if (found == metrics.rend())
    return none(fmt::format("was reported without '{}'", *policy.score_attribute));
  double number = 0;
  if (const auto* whole = std::get_if<std::int64_t>(&found->second)) {
    number = static_cast<double>(*whole);
  } else if (const auto* real = std::get_if<double>(&found->second)) {
    number = *real;
  } else {
    return none(fmt::format("was reported with a '{}' that is no number", *policy.score_attribute));
  }
  if (std::isnan(number))
    return none(fmt::format("was reported with '{}' = NaN", *policy.score_attribute));
  return Score{number, {}};
}

RetentionPlan plan_retention(const RetentionPolicy& policy,
                             std::vector<ScoredCheckpoint> checkpoints,
                             const std::set<CheckpointNumber>& pinned) {
  TRAIN_CHECK(!policy.num_to_keep || *policy.num_to_keep >= 1,
              "num_to_keep is at least 1 after parsing");
  RetentionPlan plan;
  if (checkpoints.empty()) return plan;
  if (!policy.score_attribute)
    for (ScoredCheckpoint& checkpoint : checkpoints) checkpoint.score.reset();

  std::sort(checkpoints.begin(), checkpoints.end(),
            [&](const auto& a, const auto& b) { return better(a, b, policy.best_is); });
  plan.best = checkpoints.front().number;
  for (const ScoredCheckpoint& checkpoint : checkpoints)
    plan.latest = std::max(plan.latest, std::optional(checkpoint.number));
  if (!policy.num_to_keep) return plan;
  for (std::size_t i = static_cast<std::size_t>(*policy.num_to_keep); i < checkpoints.size(); ++i) {
    const CheckpointNumber number = checkpoints[i].number;
    if (number != *plan.latest && !pinned.contains(number)) plan.remove.push_back(number);
  }
  std::sort(plan.remove.begin(), plan.remove.end());
  return plan;
}

}  // namespace train
