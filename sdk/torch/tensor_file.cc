#include "sdk/torch/tensor_file.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <array>
#include <exception>
#include <set>
#include <string_view>
#include <utility>

#include "sdk/torch/failure.h"
#include "sdk/torch/safetensors.h"
#include "sdk/torch/staging_buffers.h"

namespace train::sdk {
namespace {

constexpr std::uint64_t kSliceBytes = 16u << 20;  // copied at a time to another device or layout

struct DtypeName {
  std::string_view name;
  torch::ScalarType type;
};
constexpr std::array kDtypeNames{
    DtypeName{"F64", torch::kFloat64}, DtypeName{"F32", torch::kFloat32},
    DtypeName{"F16", torch::kFloat16}, DtypeName{"BF16", torch::kBFloat16},
    DtypeName{"I64", torch::kInt64},   DtypeName{"I32", torch::kInt32},
    DtypeName{"I16", torch::kInt16},   DtypeName{"I8", torch::kInt8},
    DtypeName{"U8", torch::kUInt8},    DtypeName{"BOOL", torch::kBool}};

std::string name_of(const std::string& tensor, torch::ScalarType type) {
  for (const DtypeName& each : kDtypeNames) {
    if (each.type == type) return std::string(each.name);
  }
  raise(Error{Errc::InvalidArgument, "tensor \"" + tensor + "\" is " + torch::toString(type) +
                                         ", which safetensors has no name for"});
}

torch::ScalarType type_of(std::string_view name) {
  for (const DtypeName& each : kDtypeNames) {
    if (each.name == name) return each.type;
  }
  raise(Error{Errc::Internal, "no tensor type for dtype " + std::string(name)});
}

torch::Tensor view_at(const torch::Tensor& buffer, std::uint64_t offset, const TensorEntry& entry) {
  std::uint8_t* at = buffer.data_ptr<std::uint8_t>() + offset;
  // The deleter holds the buffer, so that a view may outlive the file's other tensors.
  return torch::from_blob(
      at, entry.shape, [buffer](void*) {}, torch::TensorOptions(type_of(entry.dtype)));
}

/// Return the size of a row in bytes; at least 1, even for entries without a byte.
std::uint64_t row_bytes(const TensorEntry& entry) {
  const std::int64_t rows = entry.shape.empty() ? 1 : entry.shape[0];
  if (rows == 0) return 1;
  return std::max<std::uint64_t>(1, (entry.end - entry.begin) / static_cast<std::uint64_t>(rows));
}

TensorEntry rows_of(const TensorEntry& entry, std::int64_t begin, std::int64_t end) {
  TensorEntry part = entry;
  if (entry.shape.empty()) return part;
  const std::uint64_t row = row_bytes(entry);
  part.shape[0] = end - begin;
  part.begin = entry.begin + static_cast<std::uint64_t>(begin) * row;
  part.end = entry.begin + static_cast<std::uint64_t>(end) * row;
  return part;
}

/// Waits, also if one of them fails, until no GPU writes into host memory any more.
class DeviceCopies {
 public:
  explicit DeviceCopies(const NamedTensors& tensors) {
    for (const auto& [name, tensor] : tensors)
      if (tensor.is_cuda()) gpus_.insert(tensor.device().index());
  }
  ~DeviceCopies() { (void)wait_for_all(); }
  DeviceCopies(const DeviceCopies&) = delete;
  DeviceCopies& operator=(const DeviceCopies&) = delete;

  bool any() const { return !gpus_.empty(); }
  void wait() {
    if (const std::exception_ptr error = wait_for_all()) std::rethrow_exception(error);
  }

 private:
  /// Return the first error.
  std::exception_ptr wait_for_all() {
    std::exception_ptr first;
    for (const torch::DeviceIndex gpu : std::exchange(gpus_, {})) {
      try {
        const c10::impl::VirtualGuardImpl guard(torch::kCUDA);
        guard.getStream({torch::kCUDA, gpu}).synchronize();
      } catch (...) {
        if (!first) first = std::current_exception();
      }
    }
    return first;
  }

  std::set<torch::DeviceIndex> gpus_;
};

}  // namespace

StagedFile stage_tensors(const NamedTensors& tensors,
                         const std::map<std::string, std::string>& metadata) {
  TensorFile file;
  file.metadata = metadata;
  for (const auto& [name, tensor] : tensors) {
    file.tensors.push_back({.name = name,
                            .dtype = name_of(name, tensor.scalar_type()),
                            .shape = tensor.sizes().vec()});
  }
  StagedFile staged;
  staged.header = make_header(file);
  const std::uint64_t bytes = file.tensors.empty() ? 0 : file.tensors.back().end;
  DeviceCopies copies(tensors);
  staged.data = staging_buffer(static_cast<std::int64_t>(bytes), copies.any());
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const torch::Tensor& tensor = tensors[i].second;
    if (tensor.numel() == 0) continue;
    // A lazy negation would be done on this side, perhaps before the bytes are here.
    view_at(staged.data, file.tensors[i].begin, file.tensors[i])
        .copy_(tensor.resolve_neg(), /*non_blocking=*/true);
  }
  copies.wait();
  return staged;
}

LoadedFile read_tensor_file(FileScan scan) {
  TensorReader file(std::move(scan));
  LoadedFile loaded;
  loaded.metadata = file.metadata();
  for (const TensorEntry& entry : file.tensors()) {
    torch::Tensor tensor = torch::empty(entry.shape, torch::TensorOptions(type_of(entry.dtype)));
    file.read(entry, 0, entry.shape.empty() ? 1 : entry.shape[0], tensor);
    loaded.tensors[entry.name] = std::move(tensor);
  }
  file.finish();
  return loaded;
}

TensorReader::TensorReader(FileScan scan) : scan_(std::move(scan)) {
  // Read the header's length first, and check it before reading anything of that size.
  std::string head(std::min<std::uint64_t>(scan_.bytes(), kHeaderLengthBytes), '\0');
  scan_.read(0, head.size(), head.data());
  const std::uint64_t header_bytes = header_length(head);
  if (header_bytes <= kHeaderBytesMax && header_bytes <= scan_.bytes() - head.size()) {
    head.resize(head.size() + header_bytes);
    scan_.read(kHeaderLengthBytes, head.size(), head.data() + kHeaderLengthBytes);
  }
  auto header = parse_header(head, scan_.bytes());
  if (!header) raise(std::move(header).error().with_context(path()));
  header_ = std::move(*header);
}

torch::ScalarType TensorReader::type(const TensorEntry& entry) { return type_of(entry.dtype); }

std::uint64_t TensorReader::offset(const TensorEntry& entry, std::int64_t row) const {
  return header_.data_offset + rows_of(entry, row, row).begin;
}

void TensorReader::read(const TensorEntry& entry, std::int64_t begin, std::int64_t end,
                        const torch::Tensor& target) {
  if (target.numel() == 0) return;
  torch::Tensor into = target;
  const bool plain = into.is_cpu() && into.layout() == torch::kStrided && into.is_contiguous() &&
                     !into.is_conj() && !into.is_neg();
  if (plain) {
    const TensorEntry part = rows_of(entry, begin, end);
    scan_.read(header_.data_offset + part.begin, header_.data_offset + part.end,
               static_cast<char*>(into.mutable_data_ptr()));
    into.unsafeGetTensorImpl()->bump_version();  // as copy_ does
    return;
  }
  each(entry, begin, end, [&](std::int64_t row, const torch::Tensor& rows) {
    if (entry.shape.empty())
      into.copy_(rows);
    else
      into.narrow(0, row - begin, rows.size(0)).copy_(rows);
  });
}

void TensorReader::each(const TensorEntry& entry, std::int64_t begin, std::int64_t end,
                        const std::function<void(std::int64_t, const torch::Tensor&)>& use) {
  const auto slice =
      static_cast<std::int64_t>(std::max<std::uint64_t>(1, kSliceBytes / row_bytes(entry)));
  torch::Tensor buffer;
  for (std::int64_t row = begin; row < end; row += slice) {
    const TensorEntry part = rows_of(entry, row, std::min(end, row + slice));
    if (!buffer.defined())
      buffer = torch::empty({static_cast<std::int64_t>(part.end - part.begin)}, torch::kUInt8);
    scan_.read(header_.data_offset + part.begin, header_.data_offset + part.end,
               reinterpret_cast<char*>(buffer.data_ptr<std::uint8_t>()));
    use(row, view_at(buffer, 0, part));
  }
}

}  // namespace train::sdk
