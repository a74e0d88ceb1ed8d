// train-run data plan: what each worker reads of a dataset, and what it holds in memory.
#pragma once

#include <train/config.h>

#include <string>
#include <vector>

#include "lib/base/result.h"
#include "lib/data/plan/row_order.h"

namespace train {

struct RankPlan {
  std::int64_t rows = 0;
  std::int64_t units = 0;  // that it reads, at least in part
  std::int64_t bytes = 0;  // of these units, in the files; 0 for `items`
  std::int64_t lanes = 0;
  std::int64_t memory = 0;  // bytes of decoded rows that it holds at a time, about
};

struct DatasetPlan {
  std::string name = {};
  bool split = false;  // else each worker reads all rows, as a single one would
  std::int64_t rows = 0, units = 0;
  std::string digest = {};
  data::OrderSpec order = {};
  std::int64_t batch_size = 0;
  std::int64_t steps = 0;  // of an epoch
  std::vector<RankPlan> ranks = {};
};

struct PlanOptions {
  int workers = 1;
  std::int64_t batch_size = 256;
};

/// Plan the first epoch.
Result<DatasetPlan> plan_dataset(const std::string& name, const Value& entry,
                                 const PlanOptions& options);

std::string plan_text(const DatasetPlan& plan);
Value plan_json(const DatasetPlan& plan);

}  // namespace train
