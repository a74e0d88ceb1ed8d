// Turns the columns of sdk/data into tensors, for iter_torch_batches. dataset.h brings in only
// forward declarations of Arrow.
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <train/torch.h>

#include <atomic>
#include <cstdio>

#include "sdk/data/column_view.h"
#include "sdk/data/convert_batch.h"
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

torch::Tensor to_tensor(const sdk::ColumnView& column) {
  // from_blob has no const form; torch.h asks users not to write to this memory.
  auto* data = const_cast<void*>(column.data);
  return torch::from_blob(
      data, column.shape, [owner = column.owner](void*) {}, scalar_type(column.type));
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
        batch.columns.emplace(column.name, to_tensor(column).clone());
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

namespace {

/// What the reading thread does, and where the loop wants the tensors.
struct Conversion {
  TorchBatchOptions options;
  torch::Device where;
  bool pins;
  /// Where `where` is a GPU: copies run here, beside what the loop has queued.
  std::optional<c10::Stream> copies;
};

/// The tensors of a batch, and the moment from which they hold it. None: they do already.
struct ReadyBatch {
  TorchBatch batch;
  std::optional<c10::Event> copied;
};

c10::impl::VirtualGuardImpl gpus() { return c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA); }

TorchBatch collate(const Conversion& conversion, const Batch& batch) {
  TorchBatch made;
  if (conversion.options.collate_fn) {
    made = sdk::guarded("collate_fn", [&] { return conversion.options.collate_fn(*batch.data); });
    for (const auto& [name, tensor] : made.columns) {
      if (!tensor.defined())
        sdk::raise(Error{Errc::InvalidArgument, "collate_fn: column '" + name + "' has no tensor"});
    }
  } else {
    for (const sdk::ColumnView& column : sdk::column_views(batch))
      made.columns.emplace(column.name, to_tensor(column));
  }
  made.row_count = sdk::row_count(batch);
  made.valid_rows = batch.valid_rows;
  made.weight = batch.weight;
  return made;
}

/// Return the type that `dtypes` names for a column.
torch::Dtype wanted_type(const Conversion& conversion, const std::string& name,
                         const torch::Tensor& column) {
  const auto found = conversion.options.dtypes.find(name);
  return found == conversion.options.dtypes.end() ? column.scalar_type() : found->second;
}

/// Bring a column to its type and place. On the way to a GPU, the fewer bytes travel: a type that
/// takes more is made there.
torch::Tensor placed(const Conversion& conversion, torch::Tensor column, torch::Dtype type) {
  const bool travels = column.device() != conversion.where;
  if (!travels || c10::elementSize(type) <= column.element_size()) column = column.to(type);
  if (conversion.pins && column.device().is_cpu()) column = column.pin_memory();
  // The caching host allocator keeps pinned memory until the copy is done.
  return column.to(conversion.where, /*non_blocking=*/conversion.where.is_cuda()).to(type);
}

sdk::Converted convert(const Conversion& conversion, const Batch& batch) {
  const torch::NoGradGuard no_gradients;
  // Pinned memory belongs to the context of the current GPU: let it be this rank's.
  const c10::OptionalDeviceGuard on_device(
      conversion.where.is_cuda() ? std::optional(conversion.where) : std::nullopt);
  auto made = std::make_shared<ReadyBatch>();
  made->batch = collate(conversion, batch);
  std::int64_t bytes = 0;
  sdk::guarded("turning a batch into tensors", [&] {
    for (const auto& [name, type] : conversion.options.dtypes) (void)made->batch[name];
    const c10::OptionalStreamGuard beside(conversion.copies);
    for (auto& [name, column] : made->batch.columns) {
      column = placed(conversion, column, wanted_type(conversion, name, column));
      bytes += static_cast<std::int64_t>(column.nbytes());
    }
    if (conversion.copies) {
      made->copied.emplace(c10::DeviceType::CUDA);
      made->copied->record(*conversion.copies);
    }
  });
  return {.value = std::move(made), .bytes = bytes};
}

/// Return where the tensors go. Throws a Failure for a GPU that this worker does not see.
torch::Device target(const TorchBatchOptions& options) {
  const torch::Device own = device();
  if (!options.device) return own;
  if (options.device->is_cuda() && !own.is_cuda()) {
    sdk::raise(Error{
        Errc::InvalidArgument,
        "iter_torch_batches: device is " + options.device->str() + ", and this worker sees no GPU",
        "leave `device` out for the worker's own device"});
  }
  return *options.device;
}

/// Return whether tensors go to pinned memory first.
bool pins(const TorchBatchOptions& options, torch::Device where) {
  if (where.is_cuda()) return true;
  if (!options.pin_memory) return false;
  if (device().is_cuda()) return where.is_cpu();
  static std::atomic<bool> told = false;
  if (!told.exchange(true))
    std::fputs("trainrun: pin_memory does nothing: this worker sees no GPU\n", stderr);
  return false;
}

}  // namespace

TorchBatch detail::take_tensors(Batch& batch) {
  const auto ready = std::static_pointer_cast<ReadyBatch>(std::move(batch.converted));
  if (!ready->copied) return std::move(ready->batch);
  sdk::guarded("taking a batch on the GPU", [&] {
    const c10::Stream loop = gpus().getStream(gpus().getDevice());
    ready->copied->block(loop);
    // The memory is that of the copies' stream: it is not used again before the loop's work ends.
    for (auto& [name, column] : ready->batch.columns)
      if (column.is_cuda()) column.record_stream(loop);
  });
  return std::move(ready->batch);
}

TorchBatchRange DatasetShard::iter_torch_batches() {
  return iter_torch_batches(TorchBatchOptions());
}

TorchBatchRange DatasetShard::iter_torch_batches(const TorchBatchOptions& options) {
  const torch::Device where = target(options);
  std::optional<c10::Stream> copies;
  if (where.is_cuda()) copies = gpus().getStreamFromGlobalPool(where);
  const auto conversion =
      std::make_shared<const Conversion>(Conversion{options, where, pins(options, where), copies});
  return TorchBatchRange(sdk::iter_converted(
      *this,
      {.batch_size = options.batch_size,
       .weight = options.weight,
       .drop_last = options.drop_last,
       .prefetch_batches = options.prefetch_batches,
       .prefetch_bytes = options.prefetch_bytes},
      [conversion](const Batch& batch) { return convert(*conversion, batch); }));
}

}  // namespace train
