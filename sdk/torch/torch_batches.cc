// Turns the columns of sdk/data into tensors, for iter_torch_batches. dataset.h brings in only
// forward declarations of Arrow.
#include <train/torch.h>

#include "sdk/data/column_view.h"
#include "sdk/torch/failure.h"

namespace train {
namespace {

torch::ScalarType scalar_type(sdk::ElementType type) {
  switch (type) {
    case sdk::ElementType::Bool:
      return torch::kBool;
    case sdk::ElementType::UInt8:
      return torch::kUInt8;
    case sdk::ElementType::Int8:
      return torch::kInt8;
    case sdk::ElementType::Int16:
      return torch::kInt16;
    case sdk::ElementType::Int32:
      return torch::kInt32;
    case sdk::ElementType::Int64:
      return torch::kInt64;
    case sdk::ElementType::Float16:
      return torch::kFloat16;
    case sdk::ElementType::Float32:
      return torch::kFloat32;
    case sdk::ElementType::Float64:
      return torch::kFloat64;
  }
  sdk::raise(Error{Errc::Internal, "a column of an unknown element type"});
}

torch::Tensor to_tensor(const sdk::ColumnView& column, torch::Device where) {
  // from_blob has no const form; torch.h asks users not to write to this memory.
  auto* data = const_cast<void*>(column.data);
  auto view = torch::from_blob(
      data, column.shape, [owner = column.owner](void*) {}, scalar_type(column.type));
  if (where.is_cpu()) return view;
  // The caching host allocator keeps the pinned memory until the copy is done.
  return view.pin_memory().to(where, /*non_blocking=*/true);
}

}  // namespace

torch::Tensor& TorchBatch::operator[](const std::string& name) {
  const auto found = columns.find(name);
  if (found != columns.end()) return found->second;
  std::string known;
  for (const auto& item : columns) known += (known.empty() ? "\"" : ", \"") + item.first + "\"";
  sdk::raise(Error{Errc::NotFound, "a batch has no column \"" + name + "\"", "it has " + known});
}

TorchBatch detail::to_torch(const Batch& batch) {
  TorchBatch converted;
  converted.valid_rows = batch.valid_rows;
  const torch::Device where = device();
  sdk::guarded("turning a batch into tensors", [&] {
    for (const sdk::ColumnView& column : sdk::column_views(batch)) {
      if (!column.shape.empty()) converted.row_count = column.shape.front();
      converted.columns.emplace(column.name, to_tensor(column, where));
    }
  });
  return converted;
}

TorchBatchRange DatasetShard::iter_torch_batches(const BatchOptions& options) {
  return TorchBatchRange(iter_batches(options));
}

}  // namespace train
