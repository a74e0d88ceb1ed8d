#include "sdk/torch/reproducible.h"

#include <ATen/Context.h>
#include <train/torch_loop.h>

#include <cstdlib>
#include <string_view>

#include "sdk/client/session.h"
#include "sdk/torch/failure.h"

namespace train {

bool sdk::deterministic_by_spec() {
  const char* asked = std::getenv("TRAINRUN_DETERMINISTIC");  // launcher/cluster/links writes it
  return asked != nullptr && std::string_view(asked) == "1";
}

void sdk::use_deterministic_algorithms() {
  at::Context& context = at::globalContext();
  context.setDeterministicAlgorithms(true, /*warn_only=*/false);
  context.setDeterministicFillUninitializedMemory(true);
  context.setDeterministicCuDNN(true);
  context.setBenchmarkCuDNN(false);  // it chooses algorithms by how fast they are at the moment
}

std::optional<Error> sdk::undetermined_cublas(bool on_gpu, const char* config) {
  const std::string_view value = config == nullptr ? "" : config;
  if (!on_gpu || value == ":4096:8" || value == ":16:8") return std::nullopt;
  return Error{Errc::InvalidArgument,
               "CUBLAS_WORKSPACE_CONFIG is " +
                   (config == nullptr ? "not set" : "'" + std::string(value) + "'") +
                   ", so cuBLAS may compute other bits each time",
               "set backend_config.deterministic: true, or CUBLAS_WORKSPACE_CONFIG=:4096:8 before "
               "the program starts"};
}

void reproducible(std::uint64_t seed) {
  const bool on_gpu = device().is_cuda();
  if (const auto why = sdk::undetermined_cublas(on_gpu, std::getenv("CUBLAS_WORKSPACE_CONFIG")))
    sdk::raise(*why);
  sdk::guarded("making LibTorch deterministic", [&] {
    sdk::use_deterministic_algorithms();
    torch::manual_seed(seed + static_cast<std::uint64_t>(sdk::worker_info().rank));
  });
}

}  // namespace train
