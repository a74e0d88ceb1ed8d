#include "sdk/torch/flat_parameters.h"

#include <ATen/ScalarOps.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace train::sdk {
namespace {

/// Return a tensor over memory of `of`, which is no view: autograd takes it for one of its own.
at::Tensor over(const at::Tensor& of, c10::Storage memory, std::int64_t begin,
                const std::vector<std::int64_t>& shape) {
  at::Tensor made = at::empty({0}, of.options());
  made.set_(std::move(memory), begin, shape, c10::contiguous_strides(shape));
  return made;
}

}  // namespace

/// Call `copy` with the parts of the whole parameter i that have the same shape as rows of
/// segments.
template <class Copy>
void FlatParameters::each_part(std::size_t i, const at::Tensor& whole, const at::Tensor& segments,
                               const Copy& copy) const {
  const ShardLayout& one = layout_.parameters[i];
  if (one.size() == 0) return;
  const at::Tensor flat = whole.view({-1});
  if (one.rows % world_size_ == 0) {  // all ranks at once
    const std::int64_t size = one.size() / world_size_;
    copy(flat.view({world_size_, size}), segments.narrow(1, one.in_segment, size));
    return;
  }
  for (int rank = 0; rank < world_size_; ++rank) {
    const Share share = even_share(one.rows, rank, world_size_);
    if (share.size() == 0) return;
    const std::int64_t size = share.size() * one.row_size;
    copy(flat.narrow(0, share.begin * one.row_size, size),
         segments[rank].narrow(0, one.in_segment, size));
  }
}

FlatParameters::FlatParameters(std::vector<at::Tensor> parameters,
                               c10::intrusive_ptr<c10d::ProcessGroup> group, int rank,
                               int world_size, const FlatTypes& types)
    : parameters_(std::move(parameters)),
      group_(std::move(group)),
      rank_(rank),
      world_size_(world_size),
      types_(types) {
  const torch::NoGradGuard no_grad;
  std::vector<std::vector<std::int64_t>> shapes;
  for (const at::Tensor& parameter : parameters_) shapes.push_back(parameter.sizes().vec());
  layout_ = layout_of(shapes, world_size);
  const auto options = parameters_.front().options().requires_grad(false);
  segment_ = at::zeros({layout_.segment}, options);
  const at::Tensor whole = at::empty({layout_.size}, options.dtype(types_.used));
  memory_ = whole.storage();
  empty_ = at::empty({0}, whole.options());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const ShardLayout& one = layout_.parameters[i];
    const Share share = even_share(one.rows, rank_, world_size_);
    pieces_.push_back(
        over(segment_, segment_.storage(), one.in_segment, one.piece_shape(rank_, world_size_)));
    pieces_.back().view({-1}).copy_(parameters_[i].detach().reshape({-1}).narrow(
        0, share.begin * one.row_size, share.size() * one.row_size));
    pieces_.back().set_requires_grad(parameters_[i].requires_grad());
    whole_of_.push_back(over(whole, memory_, one.in_unit, one.shape));
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    parameters_[i].set_data(whole_of_[i]);
    if (parameters_[i].requires_grad())
      accumulators_.push_back(torch::autograd::impl::grad_accumulator(parameters_[i]));
  }
  taken_.assign(parameters_.size(), false);
  whole_ = true;
  release();
}

// ---- the parameters

void FlatParameters::start_gather() {
  if (whole_ || gathered_.defined()) return;
  const torch::NoGradGuard no_grad;
  at::Tensor mine = segment_.to(types_.used);
  if (!group_) {
    gathered_ = mine;
    return;
  }
  at::Tensor all = at::empty({world_size_ * layout_.segment}, mine.options());
  gathering_ = group_->_allgather_base(all, mine);
  gathered_ = std::move(all);
}

void FlatParameters::finish_gather() {
  if (whole_) return;
  const torch::NoGradGuard no_grad;
  if (gathering_) gathering_->wait();
  gathering_.reset();
  const at::Tensor fresh = at::empty({layout_.size}, empty_.options());
  at::DataPtr bytes = fresh.storage().set_data_ptr(at::DataPtr(nullptr, fresh.device()));
  memory_.set_data_ptr_noswap(std::move(bytes));
  memory_.set_nbytes(fresh.nbytes());
  const at::Tensor segments = gathered_.view({world_size_, layout_.segment});
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    each_part(i, whole_of_[i], segments,
              [](const at::Tensor& whole, const at::Tensor& rows) { whole.copy_(rows); });
    parameters_[i].set_data(whole_of_[i]);
  }
  gathered_.reset();
  whole_ = true;
}

void FlatParameters::release() {
  if (gathering_) gathering_->wait();
  gathering_.reset();
  gathered_.reset();
  if (!whole_) return;
  for (const at::Tensor& parameter : parameters_) parameter.set_data(empty_);
  memory_.set_data_ptr_noswap(at::DataPtr(nullptr, empty_.device()));
  memory_.set_nbytes(0);
  whole_ = false;
}

// ---- gradients

void FlatParameters::take_gradient(std::size_t i) {
  const torch::NoGradGuard no_grad;
  at::Tensor& gradient = parameters_[i].mutable_grad();
  if (!gradients_.defined())
    gradients_ = at::empty({world_size_, layout_.segment}, empty_.options().dtype(types_.reduced));
  // The mean is made of parts, so that a sum in a narrow type does not overflow.
  const auto part = at::native::wrapped_scalar_tensor(1.0 / world_size_);
  each_part(i, gradient.is_sparse() ? gradient.to_dense() : gradient.contiguous(), gradients_,
            [&](const at::Tensor& whole, at::Tensor rows) {
              if (rows.scalar_type() == whole.scalar_type())
                at::mul_out(rows, whole, part);
              else
                rows.copy_(whole).mul_(part);
            });
  gradient.reset();
  taken_[i] = true;
}

void FlatParameters::start_reduce() {
  if (!gradients_.defined()) return;
  const torch::NoGradGuard no_grad;
  if (!group_) {
    reduced_ = gradients_.view({-1});
    return;
  }
  reduced_ = at::empty({layout_.segment}, gradients_.options());
  at::Tensor all = gradients_.view({-1});
  reducing_ = group_->_reduce_scatter_base(reduced_, all);
}

void FlatParameters::finish_reduce() {
  if (!reduced_.defined()) return;
  const torch::NoGradGuard no_grad;
  if (reducing_) reducing_->wait();
  const at::Tensor sum = reduced_.to(segment_.scalar_type());
  for (std::size_t i = 0; i < pieces_.size(); ++i) {
    if (!taken_[i]) continue;
    at::Tensor& gradient = pieces_[i].mutable_grad();
    at::Tensor added =
        over(sum, sum.storage(), layout_.parameters[i].in_segment, pieces_[i].sizes().vec());
    if (gradient.defined())
      gradient.add_(added);
    else
      gradient = std::move(added);
  }
  drop_gradients();
}

void FlatParameters::leave_gradient(std::size_t i) {
  const torch::NoGradGuard no_grad;
  at::Tensor& gradient = pieces_[i].mutable_grad();
  if (!gradient.defined()) gradient = at::zeros_like(pieces_[i].detach());
}

void FlatParameters::drop_zeroed() {
  for (std::size_t i = 0; i < pieces_.size(); ++i)
    if (!pieces_[i].grad().defined()) parameters_[i].mutable_grad().reset();
}

void FlatParameters::drop_gradients() {
  reducing_.reset();
  reduced_.reset();
  gradients_.reset();
  taken_.assign(taken_.size(), false);
}

}  // namespace train::sdk
