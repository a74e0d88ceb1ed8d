// Fully sharded data parallelism (ZeRO stage 3: Rajbhandari et al., arXiv:1910.02054; PyTorch's
// FSDP: Zhao et al., arXiv:2304.11277), for models that do not fit one device: each rank keeps its
// rows of every parameter, of its gradient and of the optimizer's state. The parameters of a unit
// are gathered from all ranks while the unit computes, and only then. Link trainrun::torch.
//
//   struct BlockImpl : torch::nn::Module { torch::Tensor forward(torch::Tensor x); … };
//   using Block = train::ShardUnit<BlockImpl>;              // in place of TORCH_MODULE(Block)
//
//   auto model = train::fully_shard(Gpt(config));           // whose blocks are Blocks
//   torch::optim::AdamW optimizer(model.parameters(), 3e-4);
//   auto loss = model(x, y);
//   loss.backward();
//   train::clip_grad_norm(optimizer, 1.0);
//   optimizer.step();
//   train::report({{"loss", loss.item<double>()}}, train::Checkpoint::from_state(model,
//   optimizer));
#pragma once

#include <train/torch.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace train {

struct FullyShardOptions {
  /// Release a unit's parameters after its forward pass, and gather them again for its backward
  /// pass. False: keep them from one to the other, which needs the memory of the whole parameters,
  /// and a third less communication (ZeRO stage 2).
  bool reshard_after_forward = true;
  /// The type in which floating-point parameters are gathered and used, as kBFloat16: half the
  /// memory and half the bytes on the network. The rows that a rank keeps, which the optimizer
  /// updates, stay in the type of the model. Give the model inputs of this type. None: as they are.
  std::optional<torch::Dtype> param_type = {};
  /// The type in which gradients are summed. None: that of the parameters while they are used.
  std::optional<torch::Dtype> reduce_type = {};
  /// While a unit computes, gather the parameters of the unit that comes next, in the order of the
  /// pass before this one. It hides the network behind the computation, and needs the memory of one
  /// unit more.
  bool prefetch = true;
  /// At the end of every synchronized backward pass, copy rank 0's buffers to all ranks.
  bool broadcast_buffers = true;
};

namespace detail {

/// The parameters of a model, of which this rank keeps its rows. Unit 0 is what is in no ShardUnit.
class ShardedModel : public GradientSync {
 public:
  static std::shared_ptr<ShardedModel> attach(torch::nn::Module& module,
                                              const FullyShardOptions& options);

  /// What connects the forward pass of a unit with its backward pass.
  struct Pass;
  /// Make the unit's parameters whole. The backward pass needs them until it has the gradients of
  /// `inputs`, which nobody else uses; if these are not all that the unit takes, perhaps longer.
  virtual std::shared_ptr<Pass> begin_forward(std::size_t unit,
                                              const std::vector<torch::Tensor>& inputs,
                                              bool all_inputs) = 0;
  /// Release the unit's parameters until the backward pass comes to `outputs`.
  virtual void end_forward(const std::shared_ptr<Pass>& pass,
                           const std::vector<torch::Tensor>& outputs) = 0;
  /// Release them: the forward pass has thrown.
  virtual void abandon_forward(const std::shared_ptr<Pass>& pass) noexcept = 0;

  /// This rank's rows, by the parameters' names; of a tied parameter, its first name.
  virtual const torch::OrderedDict<std::string, torch::Tensor>& pieces() const = 0;
  /// Make all parameters whole, until as many calls of release_all() follow.
  virtual void gather_all() = 0;
  virtual void release_all() noexcept = 0;
};

/// What fully_shard() finds in a module that is a unit.
class ShardUnitBase {
 public:
  void shard_as(std::weak_ptr<ShardedModel> model, std::size_t unit) {
    sharded_model_ = std::move(model);
    shard_unit_ = unit;
  }

 protected:
  ~ShardUnitBase() = default;
  /// Return the model that this unit is a part of; null if it was not sharded. Throws
  /// Failure("invalid_argument") when the model's FullySharded has been destroyed.
  std::shared_ptr<ShardedModel> sharded_model() const;
  std::size_t shard_unit() const { return shard_unit_; }

 private:
  std::weak_ptr<ShardedModel> sharded_model_;
  std::size_t shard_unit_ = 0;  // 0: it was not sharded
};
[[noreturn]] void refuse_to_clone_unit();

/// Whether tensors are found in a T, and whether nothing else in it can hold one.
template <class T>
struct TensorsIn {
  static constexpr bool kAny = false;
  static constexpr bool kAll = std::is_arithmetic_v<T> || std::is_enum_v<T>;
  static void add(std::vector<torch::Tensor>&, const T&) {}
  static void alias(std::vector<torch::Tensor>&, T&) {}
};
template <>
struct TensorsIn<torch::Tensor> {
  static constexpr bool kAny = true, kAll = true;
  static void add(std::vector<torch::Tensor>& to, const torch::Tensor& tensor) {
    if (tensor.defined()) to.push_back(tensor);
  }
  static void alias(std::vector<torch::Tensor>& to, torch::Tensor& tensor) {
    if (!tensor.defined() || !tensor.requires_grad() || !torch::GradMode::is_enabled()) return;
    tensor = at::alias(tensor);
    to.push_back(tensor);
  }
};
template <class T>
struct TensorsIn<std::optional<T>> {
  static constexpr bool kAny = TensorsIn<T>::kAny, kAll = TensorsIn<T>::kAll;
  static void add(std::vector<torch::Tensor>& to, const std::optional<T>& maybe) {
    if (maybe) TensorsIn<T>::add(to, *maybe);
  }
  static void alias(std::vector<torch::Tensor>& to, std::optional<T>& maybe) {
    if (maybe) TensorsIn<T>::alias(to, *maybe);
  }
};
template <class T>
struct TensorsIn<std::vector<T>> {
  static constexpr bool kAny = TensorsIn<T>::kAny, kAll = TensorsIn<T>::kAll;
  static void add(std::vector<torch::Tensor>& to, const std::vector<T>& list) {
    for (const auto& each : list) TensorsIn<T>::add(to, each);
  }
  static void alias(std::vector<torch::Tensor>& to, std::vector<T>& list) {
    if constexpr (kAny)
      for (auto& each : list) TensorsIn<T>::alias(to, each);
  }
};
template <class... T>
struct TensorsIn<std::tuple<T...>> {
  static constexpr bool kAny = (TensorsIn<T>::kAny || ...), kAll = (TensorsIn<T>::kAll && ...);
  static void add(std::vector<torch::Tensor>& to, const std::tuple<T...>& tuple) {
    std::apply([&](const T&... each) { (TensorsIn<T>::add(to, each), ...); }, tuple);
  }
  static void alias(std::vector<torch::Tensor>& to, std::tuple<T...>& tuple) {
    std::apply([&](T&... each) { (TensorsIn<T>::alias(to, each), ...); }, tuple);
  }
};
template <class T, class U>
struct TensorsIn<std::pair<T, U>> {
  static constexpr bool kAny = TensorsIn<T>::kAny || TensorsIn<U>::kAny;
  static constexpr bool kAll = TensorsIn<T>::kAll && TensorsIn<U>::kAll;
  static void add(std::vector<torch::Tensor>& to, const std::pair<T, U>& pair) {
    TensorsIn<T>::add(to, pair.first);
    TensorsIn<U>::add(to, pair.second);
  }
  static void alias(std::vector<torch::Tensor>& to, std::pair<T, U>& pair) {
    TensorsIn<T>::alias(to, pair.first);
    TensorsIn<U>::alias(to, pair.second);
  }
};

/// What a unit gets of an argument: a copy, if it holds tensors, else the argument itself.
template <class Arg>
using Given = std::conditional_t<TensorsIn<std::decay_t<Arg>>::kAny, std::decay_t<Arg>, Arg&&>;

/// Return the argument with an alias in place of each tensor that needs a gradient. The gradient of
/// the alias is that of this unit alone, and so is there once the unit is done.
template <class Arg>
Given<Arg> given(std::vector<torch::Tensor>& aliases, Arg&& arg) {
  if constexpr (TensorsIn<std::decay_t<Arg>>::kAny) {
    auto own = std::forward<Arg>(arg);
    TensorsIn<std::decay_t<Arg>>::alias(aliases, own);
    return own;
  } else {
    return std::forward<Arg>(arg);
  }
}

/// Call `forward` with the unit's parameters.
template <class Forward, class... Args>
auto forward_of_unit(const std::shared_ptr<ShardedModel>& model, std::size_t unit,
                     const Forward& forward, Args&&... args) {
  std::vector<torch::Tensor> inputs, outputs;
  std::tuple<Given<Args>...> own{given<Args>(inputs, std::forward<Args>(args))...};
  const auto pass =
      model->begin_forward(unit, inputs, (TensorsIn<std::decay_t<Args>>::kAll && ... && true));
  try {
    auto result =
        std::apply([&](auto&&... each) { return forward(static_cast<Args&&>(each)...); }, own);
    using Found = TensorsIn<decltype(result)>;
    static_assert(Found::kAny,
                  "the forward() of a sharded unit has to return tensors: a torch::Tensor, or "
                  "tuples, pairs, vectors or optionals of them");
    Found::add(outputs, result);
    model->end_forward(pass, outputs);
    return result;
  } catch (...) {
    model->abandon_forward(pass);
    throw;
  }
}

/// A module whose forward() is that of Impl, with its parameters.
template <class Impl, class Result, class... Args>
class ShardUnitOf : public Impl, public ShardUnitBase {
 public:
  using Impl::Impl;
  std::decay_t<Result> forward(Args... args) {
    const auto model = sharded_model();
    if (model == nullptr) return Impl::forward(std::forward<Args>(args)...);
    return forward_of_unit(
        model, shard_unit(),
        [this](auto&&... each) -> std::decay_t<Result> {
          return Impl::forward(std::forward<decltype(each)>(each)...);
        },
        std::forward<Args>(args)...);
  }
  std::shared_ptr<torch::nn::Module> clone(
      const std::optional<torch::Device>& = std::nullopt) const override {
    refuse_to_clone_unit();
  }
};

template <class Impl, class Forward>
struct ShardUnitFor {
  static_assert(sizeof(Impl) == 0, "a ShardUnit needs a module with a forward()");
};
template <class Impl, class Result, class Class, class... Args>
struct ShardUnitFor<Impl, Result (Class::*)(Args...)> {
  using Type = ShardUnitOf<Impl, Result, Args...>;
};
template <class Impl, class Result, class Class, class... Args>
struct ShardUnitFor<Impl, Result (Class::*)(Args...) const> {
  using Type = ShardUnitOf<Impl, Result, Args...>;
};
template <class Impl, class Result, class Class, class... Args>
struct ShardUnitFor<Impl, Result (Class::*)(Args...) noexcept> {
  using Type = ShardUnitOf<Impl, Result, Args...>;
};
template <class Impl, class Result, class Class, class... Args>
struct ShardUnitFor<Impl, Result (Class::*)(Args...) const noexcept> {
  using Type = ShardUnitOf<Impl, Result, Args...>;
};

}  // namespace detail

/// A holder, as TORCH_MODULE makes one, of a module that is to be a unit of a sharded model: a
/// block of a transformer, a stage of a ResNet. Its forward() is Impl's, which is one only and no
/// template, without its default arguments; it returns tensors, or tuples, pairs, vectors or
/// optionals of them. It works in a Sequential, and in a model that is not sharded; clone() throws.
/// A unit may hold others. Use a unit's parameters only in its forward(): elsewhere they are empty.
template <class Impl>
using ShardUnit =
    torch::nn::ModuleHolder<typename detail::ShardUnitFor<Impl, decltype(&Impl::forward)>::Type>;

/// All parameters of a sharded model, whole on every rank, while it lives: to look at them, to
/// write them to a file, or to run the model, or parts of it, on one rank. What is written into
/// them is lost. End it before the optimizer's next step or a load, which it does not see, and
/// after the backward pass of what ran while it lived; such a pass is collective as any other.
class WholeParameters {
 public:
  explicit WholeParameters(std::shared_ptr<detail::ShardedModel> model) : model_(std::move(model)) {
    model_->gather_all();
  }
  ~WholeParameters() { model_->release_all(); }
  WholeParameters(const WholeParameters&) = delete;
  WholeParameters& operator=(const WholeParameters&) = delete;

 private:
  std::shared_ptr<detail::ShardedModel> model_;
};

/// A model of which each rank keeps its part; fully_shard() makes it. Call it as a function: its
/// module's own forward() finds empty parameters. Copies share the model. Keep one for as long as
/// you train.
template <class Impl>
class FullySharded {
 public:
  using ContainedType = Impl;

  FullySharded(std::shared_ptr<Impl> module, std::shared_ptr<detail::ShardedModel> model)
      : module_(std::move(module)), model_(std::move(model)) {}

  /// Call the module's forward(). Collective, as is the backward pass of what it returns.
  template <class... Args>
  auto operator()(Args&&... args) const {
    return detail::forward_of_unit(
        model_, 0,
        [this](auto&&... each) { return module_->forward(std::forward<decltype(each)>(each)...); },
        std::forward<Args>(args)...);
  }

  /// This rank's rows of the parameters, for an optimizer that works on each element by itself:
  /// SGD, Adam, AdamW, FusedAdamW, RMSprop, Adagrad. Some are empty where there are fewer rows than
  /// ranks. Backward passes set their gradients.
  std::vector<torch::Tensor> parameters() const { return model_->pieces().values(); }
  /// The same with the parameters' names, to make groups of them.
  const torch::OrderedDict<std::string, torch::Tensor>& named_parameters() const {
    return model_->pieces();
  }
  void zero_grad() const {
    for (const torch::Tensor& each : parameters()) each.mutable_grad().reset();
    module_->zero_grad();  // what no_sync() has left
  }
  void train(bool on = true) const { module_->train(on); }
  void eval() const { module_->eval(); }

  /// Gather all parameters while the result lives: `auto whole = model.whole();`. Collective.
  WholeParameters whole() const { return WholeParameters(model_); }
  /// While it lives, backward passes only add to whole gradients on this rank, which needs their
  /// memory; the first pass afterwards sums them. All ranks must do the same.
  NoSync no_sync() const { return NoSync(model_); }

  const std::shared_ptr<Impl>& module() const { return module_; }
  const std::shared_ptr<Impl>& ptr() const { return module_; }

 private:
  std::shared_ptr<Impl> module_;
  std::shared_ptr<detail::ShardedModel> model_;
};

/// Divide `model` (a holder, or a std::shared_ptr to a module) among the ranks: broadcast rank 0's
/// parameters and buffers, unit by unit, move this rank's rows to device(), and leave the module's
/// parameters empty between passes. The module is on the CPU, whole, when you call this; a device
/// never holds more than a unit of it. Parameters that are in no ShardUnit, and those that two
/// units share, are gathered from the beginning of the forward pass to the end of the backward
/// pass.
///
/// Results are those of prepare_model(): with an optimizer of torch::optim to the last bit, where
/// two ranks, or those of one node on its CPUs, add gradients up; elsewhere in another order.
/// clip_grad_norm, GradScaler, LrSchedule, accumulate and from_state take what this returns, and an
/// optimizer of its parameters(), like those of a prepared model. A checkpoint holds each rank's
/// rows as rank-0003/model.safetensors; it loads at any world size, also into a model that is not
/// sharded, and a sharded model loads what was saved from such.
///
/// Every backward pass has to reach all parameters that need gradients, on all ranks. It must not
/// be one of second derivatives (create_graph), nor part of another one, as in activation
/// checkpointing. Where a pass throws on one rank, the ranks are no longer in step: let the
/// exception end the worker. Under Autocast, LibTorch keeps a cast copy of each weight from the
/// forward to the backward pass, so that not much is saved: use param_type. Collective. Throws
/// Failure("invalid_argument") when ranks disagree about the parameters or the options, or when the
/// model is sharded already.
template <class M>
auto fully_shard(const M& model, const FullyShardOptions& options = {}) {
  using Module = detail::ModuleOf<M>;
  auto pointer = Module::pointer(model);
  auto sharded = detail::ShardedModel::attach(*pointer, options);
  return FullySharded<typename Module::Type>(std::move(pointer), std::move(sharded));
}

}  // namespace train
