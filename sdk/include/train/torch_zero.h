// An optimizer whose state is divided among the ranks (ZeRO stage 1: Rajbhandari et al.,
// arXiv:1910.02054), for models whose moments take too much memory. Link trainrun::torch.
#pragma once

#include <train/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace train {

/// What all ZeroOptimizers have in common. Make a ZeroOptimizer.
class ZeroOptimizerBase : public torch::optim::Optimizer {
 public:
  /// Update the parameters that this rank owns, and get the others from their owners. Collective.
  torch::Tensor step(LossClosure closure = nullptr) override;
  /// Return the rank that owns each parameter, numbered over all groups.
  const std::vector<int>& owners() const { return owners_; }

  /// LibTorch's archives would hold the state of this rank only: both throw
  /// Failure("invalid_argument"). Use Checkpoint::from_state.
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 protected:
  /// The state of one parameter. `step` is a number of the optimizer's own.
  struct Moments {
    torch::Tensor exp_avg, exp_avg_sq, max_exp_avg_sq;  // the last one only with amsgrad
    std::int64_t step = 0;
  };
  /// A group's options as numbers.
  struct Numbers {
    double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0;
    bool amsgrad = false;
  };

  ZeroOptimizerBase(const std::vector<torch::optim::OptimizerParamGroup>& groups,
                    std::unique_ptr<torch::optim::OptimizerOptions> defaults);
  /// Return the groups with only the parameters that this rank owns.
  std::vector<torch::optim::OptimizerParamGroup> own_groups() const;
  void set_local(std::unique_ptr<torch::optim::Optimizer> local) { local_ = std::move(local); }
  torch::optim::Optimizer& local() const { return *local_; }

  /// Return the moments of a parameter that this rank owns; zeros before its first step.
  virtual Moments moments(const torch::Tensor& parameter, bool amsgrad) = 0;
  virtual void set_step(const torch::Tensor& parameter, std::int64_t step) = 0;
  virtual std::string name() const = 0;  // of the local optimizer's type
  virtual Numbers numbers_of(const torch::optim::OptimizerOptions& options) const = 0;
  virtual std::unique_ptr<torch::optim::OptimizerOptions> options_of(
      const Numbers& numbers) const = 0;

 private:
  friend void collect_state(StateRefs& refs, ZeroOptimizerBase& optimizer);

  /// The groups' options; and, after the tensors were loaded, what takes the step counts over.
  class Options final : public Stateful {
   public:
    explicit Options(ZeroOptimizerBase& of) : of_(&of) {}
    std::string kind() const override;
    Dict state() const override;
    void load_state(const Dict& state) override;

   private:
    ZeroOptimizerBase* of_;
  };

  const ShardedState& sharded_state();
  void check_groups() const;

  std::vector<int> owners_;
  std::unique_ptr<torch::optim::Optimizer> local_;  // of the parameters that this rank owns
  std::vector<std::pair<torch::Tensor, torch::Tensor>> steps_;  // parameter, its step as a tensor
  ShardedState sharded_;
  Options options_{*this};
};

/// For Checkpoint::from_state and load, which call it.
void collect_state(StateRefs& refs, ZeroOptimizerBase& optimizer);

namespace detail {
template <class Local>
struct ZeroTypes;  // the optimizers that ZeroOptimizer is for
template <>
struct ZeroTypes<torch::optim::Adam> {
  static constexpr const char* kName = "torch::optim::Adam";
  using Options = torch::optim::AdamOptions;
  using State = torch::optim::AdamParamState;
};
template <>
struct ZeroTypes<torch::optim::AdamW> {
  static constexpr const char* kName = "torch::optim::AdamW";
  using Options = torch::optim::AdamWOptions;
  using State = torch::optim::AdamWParamState;
};
template <>
struct ZeroTypes<FusedAdamW> : ZeroTypes<torch::optim::AdamW> {};
}  // namespace detail

/// An optimizer of LibTorch (torch::optim::Adam, AdamW, or train::FusedAdamW) that keeps on each
/// rank only the state of the parameters that this rank owns: 1 / world_size of the moments. Whole
/// parameters are dealt out by size. Each rank updates its own, and then broadcasts them, so that
/// all ranks have the parameters that the optimizer alone would give them, to the last bit. Make it
/// on every rank over the parameters of a prepared model, in the same order. Everything that takes
/// an optimizer takes it: GradScaler, clip_grad_norm, LrSchedule, zero_grad().
///
/// from_state(model, optimizer) saves each rank's part as a ShardedState ("3.exp_avg" and so on,
/// parameters numbered over all groups), and load() reads it at any world size. What another kind
/// of optimizer saved does not fit.
template <class Local>
class ZeroOptimizer final : public ZeroOptimizerBase {
 public:
  using Options = typename detail::ZeroTypes<Local>::Options;

  /// Throws Failure("invalid_argument") when a parameter is there twice.
  explicit ZeroOptimizer(const std::vector<torch::optim::OptimizerParamGroup>& groups,
                         Options options = {})
      : ZeroOptimizerBase(groups, std::make_unique<Options>(options)) {
    set_local(std::make_unique<Local>(own_groups(), options));
  }
  explicit ZeroOptimizer(std::vector<torch::Tensor> parameters, Options options = {})
      : ZeroOptimizer({torch::optim::OptimizerParamGroup(std::move(parameters))},
                      std::move(options)) {}

 private:
  using State = typename detail::ZeroTypes<Local>::State;

  State& state_of(const torch::Tensor& parameter) {
    auto& state = local().state()[parameter.unsafeGetTensorImpl()];
    if (state == nullptr) {
      auto fresh = std::make_unique<State>();
      fresh->exp_avg(torch::zeros_like(parameter, torch::MemoryFormat::Preserve));
      fresh->exp_avg_sq(torch::zeros_like(parameter, torch::MemoryFormat::Preserve));
      state = std::move(fresh);
    }
    return static_cast<State&>(*state);
  }
  Moments moments(const torch::Tensor& parameter, bool amsgrad) override {
    State& state = state_of(parameter);
    if (amsgrad && !state.max_exp_avg_sq().defined())
      state.max_exp_avg_sq(torch::zeros_like(parameter, torch::MemoryFormat::Preserve));
    return {state.exp_avg(), state.exp_avg_sq(), amsgrad ? state.max_exp_avg_sq() : torch::Tensor(),
            state.step()};
  }
  void set_step(const torch::Tensor& parameter, std::int64_t step) override {
    state_of(parameter).step(step);
  }
  std::string name() const override { return detail::ZeroTypes<Local>::kName; }
  Numbers numbers_of(const torch::optim::OptimizerOptions& options) const override {
    const auto& of = static_cast<const Options&>(options);
    return {of.lr(),  std::get<0>(of.betas()), std::get<1>(of.betas()),
            of.eps(), of.weight_decay(),       of.amsgrad()};
  }
  std::unique_ptr<torch::optim::OptimizerOptions> options_of(
      const Numbers& numbers) const override {
    auto options = std::make_unique<Options>(numbers.lr);
    options->betas({numbers.beta1, numbers.beta2})
        .eps(numbers.eps)
        .weight_decay(numbers.weight_decay)
        .amsgrad(numbers.amsgrad);
    return options;
  }
};

}  // namespace train
