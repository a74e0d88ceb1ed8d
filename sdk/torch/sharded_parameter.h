// Which tensors belong to sharded models, so that whatever takes parameters can tell: a module's
// parameter, which is empty between passes, and the piece of it that this rank keeps.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace train::sdk {

struct ShardedParameter {
  at::Tensor piece;                  // this rank's rows
  std::vector<std::int64_t> shape;   // of the whole parameter
  std::vector<std::int64_t> offset;  // of the piece in it
  bool held = true;                  // false: of a scalar that another rank has
};

/// Return what a parameter of a sharded module, or a piece, stands for; none for any other tensor.
/// Throws Failure("invalid_argument") if the module's FullySharded has been destroyed. Any thread
/// may call these.
std::optional<ShardedParameter> sharded_parameter(const at::Tensor& tensor);
/// Return whether any of the tensors is such.
bool any_sharded(const std::vector<at::Tensor>& tensors);
/// Return whether any of an optimizer's parameters is a piece. Throws Failure("invalid_argument")
/// if one is a sharded module's own, which is empty and gets no gradient.
bool any_pieces(const std::vector<at::Tensor>& parameters);

/// Enter a module's parameter and its piece, for as long as they exist.
void enter_sharded(const at::Tensor& parameter, const ShardedParameter& sharded);

}  // namespace train::sdk
