#include "launcher/cluster/checkpoints/checkpoint_rows.h"

#include "lib/base/metrics.h"

namespace train {

RetentionPolicy retention_policy(const CheckpointConfig& config) {
  return {config.num_to_keep, config.score_attribute,
          config.score_order == ScoreOrder::Max ? BestIs::Highest : BestIs::Lowest};
}

CheckpointTable checkpoint_table(const std::vector<ListedCheckpoint>& listed,
                                 const CheckpointConfig& config) {
  const RetentionPolicy policy = retention_policy(config);
  CheckpointTable table{.score_attribute = policy.score_attribute.value_or("")};
  std::vector<ScoredCheckpoint> usable;
  for (const ListedCheckpoint& one : listed) {
    CheckpointRow row{.number = one.number.value,
                      .name = one.path.substr(one.path.rfind('/') + 1),
                      .path = one.path};
    if (one.manifest.has_error()) {
      row.error = one.manifest.error().message;
    } else {
      const Manifest& manifest = *one.manifest;
      row.created = manifest.created;
      row.bytes = manifest.total_bytes();
      row.files = manifest.files.size();
      row.world_size = manifest.world_size;
      if (const std::int64_t epoch = epoch_of(manifest.metrics); epoch >= 0) row.epoch = epoch;
      row.metrics = one.metrics();
      row.nodes = manifest.nodes();
      row.score = score_of(policy, one.number, row.metrics).value;
      if (one.validation) {
        row.validation = to_string(one.validation->status);
        row.validation_error = one.validation->error;
      }
      usable.push_back({one.number, row.score});
    }
    table.rows.push_back(std::move(row));
  }
  const RetentionPlan plan = plan_retention(policy, std::move(usable));
  for (CheckpointRow& row : table.rows) {
    row.latest = plan.latest && row.number == plan.latest->value;
    row.best = plan.best && row.number == plan.best->value;
  }
  return table;
}

}  // namespace train
