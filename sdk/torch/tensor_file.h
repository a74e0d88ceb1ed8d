// Named tensors to a safetensors file and back. Called by state_io.cc; knows nothing of modules.
#pragma once

#include <torch/torch.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

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

}  // namespace train::sdk
