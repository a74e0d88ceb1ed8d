// The parameters of one unit that have the same type, divided among the ranks: gathered before they
// are used, released after it, and their gradients summed so that each rank gets its part. It knows
// nothing of modules or passes; fully_shard.cc says when. Use it from one thread at a time.
#pragma once

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "sdk/torch/shard_layout.h"

namespace train::sdk {

struct FlatTypes {
  at::ScalarType used;     // of the whole parameters while they are used
  at::ScalarType reduced;  // in which gradients are summed
};

class FlatParameters {
 public:
  /// Take rows of the parameters, which are whole, on their device, and the same on all ranks; then
  /// they become empty. `group` is null in a world of one.
  FlatParameters(std::vector<at::Tensor> parameters, c10::intrusive_ptr<c10d::ProcessGroup> group,
                 int rank, int world_size, const FlatTypes& types);

  const std::vector<at::Tensor>& parameters() const { return parameters_; }
  /// This rank's rows, in the type that the parameters had.
  const std::vector<at::Tensor>& pieces() const { return pieces_; }
  const UnitLayout& layout() const { return layout_; }
  /// Return the autograd node that takes the gradient of parameter i; null if it is not trained.
  const torch::autograd::Node* accumulator(std::size_t i) const {
    return accumulators_.empty() ? nullptr : accumulators_[i].get();
  }

  /// Begin to get all ranks' rows, unless that has been done. Collective.
  void start_gather();
  /// Wait for them: the parameters are whole then. What is written into them is lost.
  void finish_gather();
  /// Make the parameters empty, and free their memory.
  void release();

  /// Take the gradient of parameter i, of which this rank's part of the mean over the ranks is to
  /// become the gradient of piece i.
  void take_gradient(std::size_t i);
  /// Begin to sum what was taken; after that, parameters may be released. Collective.
  void start_reduce();
  /// Wait for the sum, and add it to the gradients of the pieces.
  void finish_reduce();
  /// Leave the whole gradient of parameter i where it is, for a later pass. The piece gets one of
  /// zeros, so that an optimizer's zero_grad() can be told from none.
  void leave_gradient(std::size_t i);
  /// Forget the whole gradients whose pieces have none any more.
  void drop_zeroed();
  /// Forget gradients that were taken: their pass has failed.
  void drop_gradients();

 private:
  template <class Copy>
  void each_part(std::size_t i, const at::Tensor& whole, const at::Tensor& segments,
                 const Copy& copy) const;

  std::vector<at::Tensor> parameters_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  int rank_, world_size_;
  FlatTypes types_;
  UnitLayout layout_;
  at::Tensor segment_;              // this rank's rows of all parameters
  std::vector<at::Tensor> pieces_;  // parts of it
  c10::Storage memory_;             // of the whole parameters: has bytes only while they are whole
  std::vector<at::Tensor> whole_of_;  // the whole parameters, over that memory
  at::Tensor empty_;
  bool whole_ = false;
  /// Made while the parameters are whole, they know the shapes of the gradients.
  std::vector<std::shared_ptr<torch::autograd::Node>> accumulators_;

  at::Tensor gathered_;  // [world_size, segment]: on the way
  c10::intrusive_ptr<c10d::Work> gathering_;
  at::Tensor gradients_, reduced_;  // [world_size, segment], [segment]
  std::vector<bool> taken_;
  c10::intrusive_ptr<c10d::Work> reducing_;
};

}  // namespace train::sdk
