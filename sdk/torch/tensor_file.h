// Named tensors to a safetensors file and back. Called by state_io.cc; knows nothing of modules.
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sdk/torch/safetensors.h"

namespace train::sdk {

using NamedTensors = std::vector<std::pair<std::string, torch::Tensor>>;

/// A file's bytes in memory: the tensors' own copy, in one piece.
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
LoadedFile read_tensor_file(const std::string& path);

/// A file of which only some rows are read. Throws as read_tensor_file.
class TensorReader {
 public:
  explicit TensorReader(std::string path);
  TensorReader(TensorReader&& other) noexcept;
  TensorReader& operator=(TensorReader&&) = delete;
  ~TensorReader();

  const std::string& path() const { return path_; }
  const std::vector<TensorEntry>& tensors() const { return header_.tensors; }
  const std::map<std::string, std::string>& metadata() const { return header_.metadata; }
  static torch::ScalarType type(const TensorEntry& entry);
  /// Rows [begin, end) of its first dimension, on the CPU; of a scalar, all of it.
  torch::Tensor rows(const TensorEntry& entry, std::int64_t begin, std::int64_t end) const;
  /// A part of the data behind the header: uint8.
  torch::Tensor bytes(std::uint64_t begin, std::uint64_t end) const;

 private:
  std::string path_;
  int fd_ = -1;
  TensorFile header_;
};

}  // namespace train::sdk
