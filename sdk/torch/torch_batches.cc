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

std::optional<sdk::ElementType> element_type(torch::ScalarType type) {
  for (int i = 0; i <= static_cast<int>(sdk::ElementType::Float64); ++i) {
    const auto element = static_cast<sdk::ElementType>(i);
    if (scalar_type(element) == type) return element;
  }
  return std::nullopt;
}

sdk::ColumnView to_column(const std::string& name, const torch::Tensor& tensor) {
  if (!tensor.defined())
    sdk::raise(Error{Errc::InvalidArgument, "column '" + name + "' has no tensor"});
  const auto type = element_type(tensor.scalar_type());
  if (!type) {
    sdk::raise(Error{Errc::InvalidArgument,
                     "column '" + name + "' is " + c10::toString(tensor.scalar_type()),
                     "return bool, whole numbers, float16, float32 or float64"});
  }
  const auto plain = std::make_shared<torch::Tensor>(tensor.detach().cpu().contiguous());
  return {.name = name,
          .type = *type,
          .shape = plain->sizes().vec(),
          .data = plain->const_data_ptr(),
          .owner = std::shared_ptr<const void>(plain, plain->const_data_ptr())};
}

}  // namespace

void register_torch_map(std::string name,
                        std::function<TorchBatch(TorchBatch, const MapContext&)> map) {
  if (!map) return register_map(std::move(name), nullptr);
  register_map(std::move(name), [map = std::move(map)](std::shared_ptr<arrow::RecordBatch> rows,
                                                       const MapContext& context) {
    return sdk::guarded("in tensors", [&] {
      const torch::NoGradGuard no_gradients;
      TorchBatch batch;
      for (const sdk::ColumnView& column : sdk::tensor_column_views({rows, 0})) {
        batch.row_count = batch.valid_rows = column.shape.front();
        batch.columns.emplace(column.name, to_tensor(column, torch::kCPU).clone());
      }
      batch = map(std::move(batch), context);
      std::vector<sdk::ColumnView> columns;
      for (const auto& [column, tensor] : batch.columns)
        columns.push_back(to_column(column, tensor));
      return sdk::with_tensor_columns(rows, columns);
    });
  });
}

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
