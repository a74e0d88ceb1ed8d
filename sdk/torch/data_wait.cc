#include <train/torch.h>

#include "sdk/client/progress.h"

namespace train::detail {
namespace {

/// End the step before the wait begins.
Phase data_after_step(bool step_ended) {
  if (step_ended) sdk::end_step(StepSource::Batch);
  sdk::set_base_phase(Phase::Step);  // between the batches, from the first one on
  return Phase::Data;
}

}  // namespace

struct DataWait::Impl {
  explicit Impl(bool step_ended) : waiting(data_after_step(step_ended)) {}
  sdk::InPhase waiting;
};

DataWait::DataWait(bool step_ended) : impl_(std::make_unique<Impl>(step_ended)) {}
DataWait::~DataWait() = default;

}  // namespace train::detail
