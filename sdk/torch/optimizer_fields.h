// Lists the options and the state that LibTorch's optimizers have, once for both writing and
// reading: options() and state() hand each member to `visit` with its name. optimizer_state.cc uses
// this.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace train::sdk {

/// What determines the size of a tensor in the state.
enum class Extent {
  Parameter,
  AllParameters,  // all of them, in one row
  One,
};

template <class OptimizerType, class OptionsType, class StateType>
struct OptimizerFields {
  using Optimizer = OptimizerType;
  using Options = OptionsType;
  using State = StateType;
  /// Return what LibTorch could not cope with; null if there is nothing.
  static const char* wrong(const Options&, const State&) { return nullptr; }
};

struct SgdFields
    : OptimizerFields<torch::optim::SGD, torch::optim::SGDOptions, torch::optim::SGDParamState> {
  static void options(auto& of, auto&& visit) {
    visit("lr", of.lr());
    visit("momentum", of.momentum());
    visit("dampening", of.dampening());
    visit("weight_decay", of.weight_decay());
    visit("nesterov", of.nesterov());
  }
  static void state(const Options&, auto& of, auto&& visit) {
    visit("momentum_buffer", of.momentum_buffer(), Extent::Parameter, true);
  }
};

template <class Optimizer, class Options, class State>
struct AdamLikeFields : OptimizerFields<Optimizer, Options, State> {
  static void options(auto& of, auto&& visit) {
    visit("lr", of.lr());
    visit("betas", of.betas());
    visit("eps", of.eps());
    visit("weight_decay", of.weight_decay());
    visit("amsgrad", of.amsgrad());
  }
  static void state(const Options& options, auto& of, auto&& visit) {
    visit("step", of.step());
    visit("exp_avg", of.exp_avg(), Extent::Parameter, true);
    visit("exp_avg_sq", of.exp_avg_sq(), Extent::Parameter, true);
    visit("max_exp_avg_sq", of.max_exp_avg_sq(), Extent::Parameter, options.amsgrad());
  }
};
using AdamFields =
    AdamLikeFields<torch::optim::Adam, torch::optim::AdamOptions, torch::optim::AdamParamState>;
using AdamWFields =
    AdamLikeFields<torch::optim::AdamW, torch::optim::AdamWOptions, torch::optim::AdamWParamState>;

struct RmspropFields : OptimizerFields<torch::optim::RMSprop, torch::optim::RMSpropOptions,
                                       torch::optim::RMSpropParamState> {
  static void options(auto& of, auto&& visit) {
    visit("lr", of.lr());
    visit("alpha", of.alpha());
    visit("eps", of.eps());
    visit("weight_decay", of.weight_decay());
    visit("momentum", of.momentum());
    visit("centered", of.centered());
  }
  static void state(const Options& options, auto& of, auto&& visit) {
    visit("step", of.step());
    visit("square_avg", of.square_avg(), Extent::Parameter, true);
    visit("momentum_buffer", of.momentum_buffer(), Extent::Parameter, options.momentum() > 0);
    visit("grad_avg", of.grad_avg(), Extent::Parameter, options.centered());
  }
};

struct AdagradFields : OptimizerFields<torch::optim::Adagrad, torch::optim::AdagradOptions,
                                       torch::optim::AdagradParamState> {
  static void options(auto& of, auto&& visit) {
    visit("lr", of.lr());
    visit("lr_decay", of.lr_decay());
    visit("weight_decay", of.weight_decay());
    visit("initial_accumulator_value", of.initial_accumulator_value());
    visit("eps", of.eps());
  }
  static void state(const Options&, auto& of, auto&& visit) {
    visit("step", of.step());
    visit("sum", of.sum(), Extent::Parameter, true);
  }
};

struct LbfgsFields : OptimizerFields<torch::optim::LBFGS, torch::optim::LBFGSOptions,
                                     torch::optim::LBFGSParamState> {
  static void options(auto& of, auto&& visit) {
    visit("lr", of.lr());
    visit("max_iter", of.max_iter());
    visit("max_eval", of.max_eval());
    visit("tolerance_grad", of.tolerance_grad());
    visit("tolerance_change", of.tolerance_change());
    visit("history_size", of.history_size());
    visit("line_search_fn", of.line_search_fn());
  }
  /// Visit all members except `al`, which each step fills before it reads it.
  static void state(const Options&, auto& of, auto&& visit) {
    visit("func_evals", of.func_evals());
    visit("n_iter", of.n_iter());
    visit("t", of.t());
    visit("prev_loss", of.prev_loss());
    const bool begun = of.n_iter() > 0;
    visit("d", of.d(), Extent::AllParameters, begun);
    visit("H_diag", of.H_diag(), Extent::One, begun);
    visit("prev_flat_grad", of.prev_flat_grad(), Extent::AllParameters, begun);
    visit("old_dirs", of.old_dirs(), Extent::AllParameters);
    visit("old_stps", of.old_stps(), Extent::AllParameters);
    visit("ro", of.ro(), Extent::One);
  }
  static const char* wrong(const Options& options, const State& state) {
    constexpr std::int64_t kHistoryMax = 1 << 20;  // LibTorch allocates a list of this length
    if (options.history_size() < 1 || options.history_size() > kHistoryMax)
      return "\"history_size\" must be from 1 to 1048576";
    const std::size_t kept = state.old_dirs().size();
    if (state.old_stps().size() != kept || state.ro().size() != kept)
      return "\"old_dirs\", \"old_stps\" and \"ro\" are of different lengths";
    if (kept > static_cast<std::size_t>(options.history_size()))
      return "\"old_dirs\" is longer than \"history_size\"";
    return nullptr;
  }
};

}  // namespace train::sdk
