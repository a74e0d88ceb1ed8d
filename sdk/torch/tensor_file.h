// Writes named tensors to a safetensors file and reads them back. state_io.cc calls this; it knows
// nothing of modules.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sdk/client/checked_files.h"
#include "sdk/torch/safetensors.h"

namespace train::sdk {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

/// A file's bytes in memory: a copy of the tensors, in one piece.
struct StagedFile {
  std::string header;
  torch::Tensor data;  // [bytes], uint8, on the CPU
};

/// Copy tensors of any device and layout. Throws Failure for a dtype that the format lacks.
StagedFile stage_tensors(const NamedTensors& tensors,
                         const std::map<std::string, std::string>& metadata);

struct LoadedFile {
  std::map<std::string, torch::Tensor> tensors;  // views of one buffer on the CPU
  std::map<std::string, std::string> metadata;
};

/// Read and check a whole file. Throws Failure("not_found", "corrupt", "io") that names it.
LoadedFile read_tensor_file(FileScan scan);

/// Reads only some rows of a file, preferably in the order in which they lie there. Throws as
/// read_tensor_file does.
class TensorReader {
 public:
  explicit TensorReader(FileScan scan);

  const std::string& path() const { return scan_.path(); }
  const std::vector<TensorEntry>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  static torch::ScalarType type(const TensorEntry& entry);
  /// Return where a row of the tensor's first dimension begins in the file; for a scalar, where the
  /// scalar begins.
  std::uint64_t offset(const TensorEntry& entry, std::int64_t row) const;

  /// Read rows [begin, end) into `target`, a tensor of their shape and type on any device. A scalar
  /// is its own row 0.
  void read(const TensorEntry& entry, std::int64_t begin, std::int64_t end,
            const torch::Tensor& target);
  /// Call `use` with a few rows at a time: the first one's number, and the rows, which are on the
  /// CPU and valid only during the call.
  void each(const TensorEntry& entry, std::int64_t begin, std::int64_t end,
            const std::function<void(std::int64_t, const torch::Tensor&)>& use);
  /// Finish the scan, as FileScan does: what was read is valid only after this.
  void finish() { scan_.finish(); }

 private:
  FileScan scan_;
  TensorFile header_;
};

}  // namespace train::sdk
