#include "sdk/torch/sharded_parameter.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "sdk/torch/failure.h"

namespace train::sdk {
namespace {

using WeakTensor = c10::weak_intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl>;

/// An entry does not keep its tensors: while the weak pointers live, no other tensor gets the same
/// address.
struct Entry {
  WeakTensor tensor, piece;
  std::vector<std::int64_t> shape, offset;
  bool held = true;
};

/// Never destroyed, because user threads may still train when main returns.
struct Entries {
  std::mutex mutex;
  std::unordered_map<const at::TensorImpl*, Entry> by_tensor;
};
Entries& entries() {
  static Entries& all = *new Entries;
  return all;
}

}  // namespace

std::optional<ShardedParameter> sharded_parameter(const at::Tensor& tensor) {
  Entries& all = entries();
  const std::lock_guard lock(all.mutex);
  const auto found = all.by_tensor.find(tensor.unsafeGetTensorImpl());
  if (found == all.by_tensor.end()) return std::nullopt;
  const Entry& entry = found->second;
  if (entry.tensor.expired()) return std::nullopt;
  auto piece = entry.piece.lock();
  if (!piece) {
    raise(Error{Errc::InvalidArgument,
                "a parameter of a module whose train::FullySharded was destroyed",
                "keep what train::fully_shard returned for as long as you use the module"});
  }
  return ShardedParameter{at::Tensor(std::move(piece)), entry.shape, entry.offset, entry.held};
}

bool any_pieces(const std::vector<at::Tensor>& parameters) {
  bool any = false;
  for (const at::Tensor& each : parameters) {
    const auto sharded = sharded_parameter(each);
    if (sharded && !sharded->piece.is_same(each)) {
      raise(Error{Errc::InvalidArgument,
                  "the optimizer has a sharded module's own parameters, which are empty",
                  "make it over parameters() of what train::fully_shard returned"});
    }
    any = any || sharded.has_value();
  }
  return any;
}

bool any_sharded(const std::vector<at::Tensor>& tensors) {
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const at::Tensor& each) { return sharded_parameter(each).has_value(); });
}

void enter_sharded(const at::Tensor& parameter, const ShardedParameter& sharded) {
  Entries& all = entries();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.by_tensor, [](const auto& entry) { return entry.second.tensor.expired(); });
  for (const at::Tensor& each : {parameter, sharded.piece}) {
    all.by_tensor.insert_or_assign(
        each.unsafeGetTensorImpl(),
        Entry{WeakTensor(each.getIntrusivePtr()), WeakTensor(sharded.piece.getIntrusivePtr()),
              sharded.shape, sharded.offset, sharded.held});
  }
}

}  // namespace train::sdk
