// Says when the parameters of a sharded model are gathered and released, and when their gradients
// are summed. LibTorch's modules have no hooks: the forward() of a ShardUnit calls begin_forward()
// and end_forward(); a hook on what it returned tells that the backward pass has come to the unit;
// hooks on the parameters tell that it has their gradients, and hooks on what the forward pass took
// that it has those. With all of these, nothing in the unit needs its parameters any more.
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>
#include <train/torch_shard.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <sstream>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "sdk/client/progress.h"
#include "sdk/client/session.h"
#include "sdk/torch/failure.h"
#include "sdk/torch/flat_parameters.h"
#include "sdk/torch/shard_units.h"
#include "sdk/torch/sharded_parameter.h"

namespace train::detail {
namespace {

using sdk::FlatParameters;
using sdk::FoundModel;
using sdk::FoundParameter;
using sdk::guarded;

constexpr std::size_t kBroadcastBytesMax = 250 << 20;
constexpr std::size_t kNamesShownMax = 10;

[[noreturn]] void refuse(const std::string& what, const std::string& hint) {
  sdk::raise(Error{Errc::InvalidArgument, what, hint});
}

[[noreturn]] void refuse_destroyed(const std::string& what) {
  refuse(what + " of a module whose train::FullySharded was destroyed",
         "keep what train::fully_shard returned for as long as you use the module");
}

}  // namespace

// ---- the model

struct ShardedModel::Pass {
  std::size_t unit = 0;
  bool running = true;
  std::size_t inputs = 0;       // that need gradients
  std::size_t open_inputs = 0;  // whose gradients this backward pass has not come to
  int done_in = -1;             // the backward pass that has come to all of them
  bool until_end = false;       // it cannot tell when it has all of them
};

namespace {

using Pass = ShardedModel::Pass;

/// Several types of parameters, and those that are not trained, need calls of their own.
struct Flat {
  FlatParameters parameters;
  bool trained = false;
  std::vector<std::string> names;
  std::vector<bool> seen = {};  // in this backward pass
};

struct Unit {
  std::vector<Flat> flats;
  bool is_outer = false;                                   // holds others
  bool has_frozen = false;                                 // parameters, which need no gradients
  int running = 0;                                         // forward passes
  std::set<std::shared_ptr<Pass>> needed = {};             // by the backward pass
  std::size_t awaited = 0;                                 // gradients, of this backward pass
  std::optional<std::size_t> next_forward, next_backward;  // what came next in the last pass
};

class Sharded;

/// Tells that a parameter has its gradient.
class GradientHook final : public torch::autograd::PostAccumulateGradHook {
 public:
  GradientHook(std::weak_ptr<Sharded> model, std::size_t unit, std::size_t flat, std::size_t i)
      : model_(std::move(model)), unit_(unit), flat_(flat), i_(i) {}
  void operator()(const torch::autograd::Variable&) override;

 private:
  std::weak_ptr<Sharded> model_;
  std::size_t unit_, flat_, i_;
};

class Sharded final : public ShardedModel, public std::enable_shared_from_this<Sharded> {
 public:
  Sharded(torch::nn::Module& module, FoundModel found, c10::intrusive_ptr<c10d::ProcessGroup> group,
          const FullyShardOptions& options)
      : group_(std::move(group)), options_(options) {
    move_buffers(module);
    units_.resize(found.units.size() + 1);
    units_[0].is_outer = true;
    for (const std::size_t outer : found.outer) units_[outer].is_outer = true;
    std::vector<std::vector<FoundParameter>> by_unit(units_.size());
    for (FoundParameter& each : found.parameters) {
      order_.push_back(each.name);
      by_unit[each.unit].push_back(std::move(each));
    }
    found.parameters.clear();
    for (std::size_t unit = 0; unit < units_.size(); ++unit)
      shard(units_[unit], std::move(by_unit[unit]));
    for (const std::string& name : order_) pieces_.insert(name, piece_by_name_.at(name));
    piece_by_name_.clear();
  }

  /// Not done in the constructor, because the hooks hold a weak pointer to this object.
  void hang_on() {
    for (std::size_t unit = 0; unit < units_.size(); ++unit)
      for (std::size_t flat = 0; flat < units_[unit].flats.size(); ++flat) {
        Flat& of = units_[unit].flats[flat];
        if (!of.trained) continue;
        for (std::size_t i = 0; i < of.names.size(); ++i)
          torch::autograd::impl::set_post_acc_grad_hooks(
              of.parameters.parameters()[i],
              std::make_unique<GradientHook>(weak_from_this(), unit, flat, i));
      }
  }

  bool set_enabled(bool enabled) override { return std::exchange(enabled_, enabled); }
  const torch::OrderedDict<std::string, torch::Tensor>& pieces() const override { return pieces_; }

  // -- forward passes

  std::shared_ptr<Pass> begin_forward(std::size_t number, const std::vector<torch::Tensor>& inputs,
                                      bool all_inputs) override {
    const std::lock_guard lock(mutex_);
    auto pass = std::make_shared<Pass>();
    pass->unit = number;
    Unit& unit = units_[number];
    if (number == 0 && torch::autograd::get_current_graph_task_id() != kNoPass) {
      refuse("a sharded model was called within its backward pass",
             "sharded models do not work with activation checkpointing");
    }
    guarded("gathering parameters", [&] {
      if (number == 0) begin_forward_of_all();
      const sdk::InPhase waiting(Phase::Collective, "gathering parameters");
      gather(unit);
      prefetch(number, last_forward_, &Unit::next_forward);
    });
    if (torch::GradMode::is_enabled()) {
      for (const torch::Tensor& input : inputs) watch_input(pass, input);
      // A frozen parameter may be needed after all of the unit's own have their gradients: for
      // those of units within, or of what came in unseen.
      if (unit.has_frozen && (unit.is_outer || !all_inputs || pass->inputs == 0))
        pass->until_end = true;
    }
    ++unit.running;
    return pass;
  }

  void end_forward(const std::shared_ptr<Pass>& pass,
                   const std::vector<torch::Tensor>& outputs) override {
    const std::lock_guard lock(mutex_);
    stop_running(*pass);
    bool comes_back = false;
    for (const torch::Tensor& output : outputs) {
      if (!torch::GradMode::is_enabled() || !output.requires_grad()) continue;
      comes_back = true;
      watch_output(pass, output);
      // What changes a view in place replaces its part of the graph, but not that of its base.
      if (!output.is_view()) continue;
      if (const torch::Tensor base(output._base()); base.requires_grad()) watch_output(pass, base);
    }
    // What comes back at once, or is needed by all units, stays.
    if (comes_back && (pass->unit == 0 || !options_.reshard_after_forward)) return;
    release_unless_needed(units_[pass->unit]);
  }

  void abandon_forward(const std::shared_ptr<Pass>& pass) noexcept override {
    const std::lock_guard lock(mutex_);
    stop_running(*pass);
    try {
      release_unless_needed(units_[pass->unit]);
    } catch (const std::exception&) {  // what was thrown first says more
    }
  }

  void gather_all() override {
    const std::lock_guard lock(mutex_);
    const sdk::InPhase waiting(Phase::Collective, "FullySharded::whole");
    guarded("gathering parameters", [&] {
      begin_forward_of_all();
      for (Unit& unit : units_) gather(unit);
    });
    ++whole_;
  }
  void release_all() noexcept override {
    const std::lock_guard lock(mutex_);
    --whole_;
    try {
      for (Unit& unit : units_) release_unless_needed(unit);
    } catch (const std::exception&) {  // a peer is gone: the next call says so
    }
  }

  // -- backward passes, on the threads of the autograd engine

  void begin_backward(const std::shared_ptr<Pass>& pass) {
    const std::lock_guard lock(mutex_);
    if (torch::GradMode::is_enabled() && whole_ == 0) {
      refuse("a backward pass with create_graph, of a sharded model",
             "sharded models have no second derivatives: use train::prepare_model");
    }
    begin_pass();
    Unit& unit = units_[pass->unit];
    if (pass->done_in == pass_) return;  // an input that the unit gave on, or a view of one
    if ((pass->inputs > 0 || pass->until_end) && unit.needed.insert(pass).second)
      pass->open_inputs = pass->inputs;
    guarded("gathering parameters", [&] {
      gather(unit);
      prefetch(pass->unit, last_backward_, &Unit::next_backward);
    });
  }

  void on_gradient(std::size_t number, std::size_t flat_number, std::size_t i) {
    const std::lock_guard lock(mutex_);
    Unit& unit = units_[number];
    Flat& flat = unit.flats[flat_number];
    const at::Tensor& parameter = flat.parameters.parameters()[i];
    const at::Tensor gradient = parameter.grad();
    begin_pass();  // if no unit was called, this gradient is the first sign of the pass
    parameter.mutable_grad() = gradient;
    if (flat.seen[i]) return;
    flat.seen[i] = true;
    any_gradient_ = true;
    guarded("summing gradients", [&] {
      if (enabled_)
        flat.parameters.take_gradient(i);
      else
        flat.parameters.leave_gradient(i);
      if (unit.awaited == 0 || --unit.awaited > 0) return;
      if (enabled_) reduce(unit);
      release_unless_needed(unit);
    });
  }

  void on_input_gradient(const std::shared_ptr<Pass>& pass) {
    const std::lock_guard lock(mutex_);
    if (--pass->open_inputs > 0 || pass->until_end) return;
    pass->done_in = pass_;
    Unit& unit = units_[pass->unit];
    unit.needed.erase(pass);
    if (unit.awaited == 0) release_unless_needed(unit);
  }

 private:
  void move_buffers(torch::nn::Module& module) {
    const torch::NoGradGuard no_grad;
    for (at::Tensor& buffer : module.buffers()) {
      if (!buffer.defined()) continue;
      buffer.set_data(buffer.to(device()));
      buffers_.push_back(buffer);
    }
    if (group_ && !buffers_.empty())
      c10d::broadcast_coalesced(group_, detached(buffers_), kBroadcastBytesMax, 0);
  }

  static std::vector<at::Tensor> detached(const std::vector<at::Tensor>& tensors) {
    // New version counters: a second pass over the same graph may still rely on what it saved.
    std::vector<at::Tensor> plain;
    for (const at::Tensor& each : tensors) plain.push_back(each.variable_data());
    return plain;
  }

  void shard(Unit& unit, std::vector<FoundParameter> found) {
    const torch::NoGradGuard no_grad;
    std::map<std::pair<at::ScalarType, bool>, std::vector<FoundParameter>> by_type;
    for (FoundParameter& each : found) {
      const auto key = std::pair(each.tensor.scalar_type(), each.tensor.requires_grad());
      by_type[key].push_back(std::move(each));
    }
    for (auto& [key, parameters] : by_type) {
      std::vector<at::Tensor> tensors;
      std::vector<std::string> names;
      for (FoundParameter& each : parameters) {
        each.tensor.set_data(each.tensor.to(device()).contiguous());
        tensors.push_back(std::move(each.tensor));
        names.push_back(std::move(each.name));
      }
      if (group_) c10d::broadcast_coalesced(group_, detached(tensors), kBroadcastBytesMax, 0);
      const bool floats = at::isFloatingType(key.first);
      const at::ScalarType used = floats ? options_.param_type.value_or(key.first) : key.first;
      const auto& worker = sdk::worker_info();
      unit.flats.push_back(
          {FlatParameters(std::move(tensors), group_, group_ ? worker.rank : 0,
                          group_ ? worker.world_size : 1,
                          {used, floats ? options_.reduce_type.value_or(used) : used}),
           key.second, std::move(names)});
      unit.has_frozen = unit.has_frozen || !key.second;
      enter(unit.flats.back());
    }
  }

  void enter(Flat& flat) {
    flat.seen.assign(flat.names.size(), false);
    const auto& worker = sdk::worker_info();
    for (std::size_t i = 0; i < flat.names.size(); ++i) {
      const sdk::ShardLayout& layout = flat.parameters.layout().parameters[i];
      const at::Tensor& parameter = flat.parameters.parameters()[i];
      const at::Tensor& piece = flat.parameters.pieces()[i];
      std::vector<std::int64_t> offset(layout.shape.size());
      if (!offset.empty())
        offset[0] =
            even_share(layout.rows, group_ ? worker.rank : 0, group_ ? worker.world_size : 1).begin;
      sdk::enter_sharded(parameter, {.piece = piece,
                                     .shape = layout.shape,
                                     .offset = std::move(offset),
                                     .held = !layout.shape.empty() || piece.dim() == 0});
      piece_by_name_.emplace(flat.names[i], piece);
    }
  }

  // -- gathering and releasing

  void gather(Unit& unit) {
    for (Flat& flat : unit.flats) flat.parameters.start_gather();
    for (Flat& flat : unit.flats) flat.parameters.finish_gather();
  }

  /// What was left whole, because no backward pass followed, may be older than the optimizer's last
  /// step.
  void begin_forward_of_all() {
    last_forward_.reset();
    if (whole_ > 0 || units_[0].running > 0) return;
    pass_ = kNoPass;  // one that has failed
    for (Unit& unit : units_) {
      unit.needed.clear();
      for (Flat& flat : unit.flats) flat.parameters.release();
    }
  }

  void stop_running(Pass& pass) {
    if (std::exchange(pass.running, false)) --units_[pass.unit].running;
  }

  /// Learn that the unit came after `last`, and begin to gather what came after the unit the last
  /// time.
  void prefetch(std::size_t number, std::optional<std::size_t>& last,
                std::optional<std::size_t> Unit::*next) {
    if (whole_ > 0) return;  // a rank may run the model without the others
    if (last && *last != number) units_[*last].*next = number;
    last = number;
    if (!options_.prefetch || !(units_[number].*next)) return;
    for (Flat& flat : units_[*(units_[number].*next)].flats) flat.parameters.start_gather();
  }

  void release_unless_needed(Unit& unit) {
    if (unit.running > 0 || !unit.needed.empty() || whole_ > 0) return;
    for (Flat& flat : unit.flats) flat.parameters.release();
  }

  // -- the backward pass

  void begin_pass() {
    const int pass = torch::autograd::get_current_graph_task_id();
    if (pass == pass_) return;
    if (pass_ != kNoPass) {
      refuse("a backward pass of a sharded model inside another one, or after one that failed",
             "call the model again first");
    }
    pass_ = pass;
    any_gradient_ = false;
    reducing_ = nullptr;  // a pass that has failed
    last_backward_.reset();
    for (Unit& unit : units_) {
      unit.needed.clear();
      unit.awaited = 0;
      for (Flat& flat : unit.flats) {
        flat.parameters.drop_gradients();
        flat.parameters.drop_zeroed();
        flat.seen.assign(flat.seen.size(), false);
        for (std::size_t i = 0; i < flat.seen.size(); ++i)
          if (is_wanted(flat.parameters.accumulator(i))) ++unit.awaited;
      }
    }
    torch::autograd::Engine::get_default_engine().queue_callback(
        [self = shared_from_this()] { self->end_pass(); });
  }

  /// Return whether this pass is to accumulate the gradient: not if the caller of
  /// torch::autograd::grad() wants other ones.
  static bool is_wanted(const torch::autograd::Node* accumulator) {
    if (accumulator == nullptr) return false;
    const auto* wanted = torch::autograd::get_current_graph_task_exec_info();
    if (wanted == nullptr || wanted->empty()) return true;
    const auto found = wanted->find(const_cast<torch::autograd::Node*>(accumulator));
    return found != wanted->end() && found->second.needed_;
  }

  /// Sum the unit's gradients. Only one unit's travel at a time, so that few are in memory.
  void reduce(Unit& unit) {
    finish_reduce();
    for (Flat& flat : unit.flats) flat.parameters.start_reduce();
    reducing_ = &unit;
  }
  void finish_reduce() {
    if (reducing_ == nullptr) return;
    const sdk::InGradientSync waiting;
    for (Flat& flat : reducing_->flats) flat.parameters.finish_reduce();
    reducing_ = nullptr;
  }

  void end_pass() {
    const std::lock_guard lock(mutex_);
    pass_ = kNoPass;
    guarded("summing gradients", [&] {
      for (Unit& unit : units_) {
        unit.needed.clear();
        release_unless_needed(unit);
      }
      if (any_gradient_ && enabled_) check_all_seen();
      finish_reduce();
      if (!any_gradient_ || !enabled_) return;
      if (group_ && options_.broadcast_buffers && !buffers_.empty()) {
        const sdk::InGradientSync waiting;
        c10d::broadcast_coalesced(group_, detached(buffers_), kBroadcastBytesMax, 0);
      }
      sdk::end_step(StepSource::Backward);
    });
  }

  void check_all_seen() const {
    std::ostringstream text;
    std::size_t missing = 0, all = 0;
    for (const Unit& unit : units_) {
      for (const Flat& flat : unit.flats) {
        if (!flat.trained) continue;
        for (std::size_t i = 0; i < flat.names.size(); ++i, ++all) {
          if (flat.seen[i]) continue;
          if (missing < kNamesShownMax)
            text << (missing == 0 ? "" : ", ") << "\"" << flat.names[i] << "\"";
          ++missing;
        }
      }
    }
    if (missing == 0) return;
    if (missing > kNamesShownMax) text << " and " << missing - kNamesShownMax << " more";
    refuse(std::to_string(missing) + " of " + std::to_string(all) +
               " parameters got no gradient in a backward pass: " + text.str(),
           "freeze them with requires_grad_(false) before train::fully_shard");
  }

  /// Learn when the backward pass comes to `output`.
  void watch_output(const std::shared_ptr<Pass>& pass, const torch::Tensor& output) {
    if (output.is_leaf()) return;  // a hook would stay on it for ever, and it has no backward pass
    output.register_hook([weak = weak_from_this(), pass](const at::TensorBase&) {
      const auto self = weak.lock();
      if (self == nullptr) refuse_destroyed("a backward pass");
      self->begin_backward(pass);
    });
  }

  /// Learn when the backward pass has the gradient of `input`, an alias of what came in.
  void watch_input(const std::shared_ptr<Pass>& pass, const torch::Tensor& input) {
    ++pass->inputs;
    input.register_hook([weak = weak_from_this(), pass](const at::TensorBase&) {
      if (const auto self = weak.lock()) self->on_input_gradient(pass);
    });
  }

  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  FullyShardOptions options_;
  std::vector<Unit> units_;
  std::vector<at::Tensor> buffers_;
  std::vector<std::string> order_;  // of the parameters' names
  std::map<std::string, at::Tensor> piece_by_name_;
  torch::OrderedDict<std::string, torch::Tensor> pieces_;

  std::mutex mutex_;  // guards what follows, and the units
  bool enabled_ = true;
  int whole_ = 0;  // WholeParameters that live
  std::optional<std::size_t> last_forward_, last_backward_;
  static constexpr int kNoPass = -1;
  int pass_ = kNoPass;  // the backward pass that is under way
  bool any_gradient_ = false;
  Unit* reducing_ = nullptr;
};

void GradientHook::operator()(const torch::autograd::Variable&) {
  const auto model = model_.lock();
  if (model == nullptr) refuse_destroyed("a backward pass");
  model->on_gradient(unit_, flat_, i_);
}

}  // namespace

std::shared_ptr<ShardedModel> ShardUnitBase::sharded_model() const {
  if (shard_unit_ == 0) return nullptr;
  if (auto model = sharded_model_.lock()) return model;
  refuse_destroyed("a forward pass");
}

void refuse_to_clone_unit() {
  refuse("a train::ShardUnit cannot be cloned", "make another one, and copy its parameters");
}

std::shared_ptr<ShardedModel> ShardedModel::attach(torch::nn::Module& module,
                                                   const FullyShardOptions& options) {
  if (sdk::any_sharded(module.parameters()))
    refuse("train::fully_shard: the model is sharded already", "shard it once, as a whole");
  FoundModel found = sdk::find_units(module);
  const auto group = process_group();
  const sdk::InPhase waiting(Phase::Collective, "fully_shard");
  return guarded("train::fully_shard", [&] {
    if (group) sdk::compare_ranks(found, options, *group);
    const std::vector<ShardUnitBase*> units = found.units;
    auto model = std::make_shared<Sharded>(module, std::move(found), group, options);
    model->hang_on();
    for (std::size_t i = 0; i < units.size(); ++i) units[i]->shard_as(model, i + 1);
    return model;
  });
}

}  // namespace train::detail
