#include "sdk/torch/compression.h"

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace train::sdk {
namespace {

using Group = c10::intrusive_ptr<c10d::ProcessGroup>;

/// Does as c10d::FP16CompressCommHook, in any type: gradients are divided by the number of ranks
/// before they are added up, so that the sum overflows no sooner than the mean.
class Compressed final : public c10d::CppCommHookInterface<Group> {
 public:
  Compressed(Group group, at::ScalarType type)
      : CppCommHookInterface(std::move(group)), type_(type) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    std::vector<at::Tensor> small{bucket.getBuffer().to(type_)};
    small[0].div_(state_->getSize());
    const auto summed = state_->allreduce(small)->getFuture();
    return summed->then(
        [whole = bucket.getBuffer()](c10::ivalue::Future& done) {
          whole.copy_(done.value().toTensorVector()[0]);  // throws what the sum has thrown
          return c10::IValue(whole);
        },
        c10::TensorType::get());
  }

 private:
  at::ScalarType type_;
};

}  // namespace

std::unique_ptr<c10d::CommHookInterface> compression_hook(GradientCompression compression,
                                                          Group group) {
  switch (compression) {
    case GradientCompression::None:
      return nullptr;
    case GradientCompression::Fp16:
      return std::make_unique<Compressed>(std::move(group), at::kHalf);
    case GradientCompression::Bf16:
      return std::make_unique<Compressed>(std::move(group), at::kBFloat16);
  }
  return nullptr;
}

}  // namespace train::sdk
