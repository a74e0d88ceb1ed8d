#include "tests/unit/sdk_torch/fake_session.h"

#include "sdk/include/train/checkpoint.h"

namespace train {

sdk::WorkerInfo& testing::fake_worker() {
  static sdk::WorkerInfo info;
  return info;
}

const sdk::WorkerInfo& sdk::worker_info() { return testing::fake_worker(); }

int start_epoch() {
  const auto epoch = testing::fake_worker().restored_epoch;
  return epoch ? static_cast<int>(*epoch) + 1 : 0;
}

}  // namespace train
