// GradientSync over c10d::Reducer. PyTorch's DistributedDataParallel arms the reducer in forward(),
// which cannot be hooked in C++ for modules of any signature. Here the first gradient of each
// backward pass arms it: a hook on every parameter runs before that parameter's gradient is
// accumulated, and so before the reducer's own hook, which runs after that.
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/variable.h>
#include <train/torch.h>

#include <atomic>
#include <mutex>
#include <sstream>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <unordered_map>
#include <unordered_set>

#include "sdk/client/progress.h"
#include "sdk/torch/compression.h"
#include "sdk/torch/failure.h"
#include "sdk/torch/sharded_parameter.h"

namespace train::detail {
namespace {

using sdk::guarded;
using torch::autograd::Node;

// As in PyTorch: one message for all small tensors.
constexpr std::size_t kBroadcastBytesMax = 250 << 20;
constexpr std::size_t kNamesShownMax = 10;

struct Named {
  std::vector<std::string> names;
  std::vector<at::Tensor> tensors;
};

/// Return each trained parameter once, under its first name. LibTorch lists a tied parameter once
/// for each of its names, and the reducer does not work with such a list.
Named trained_parameters(torch::nn::Module& module) {
  Named found;
  std::unordered_set<const at::TensorImpl*> seen;
  for (const auto& item : module.named_parameters()) {
    if (!item.value().requires_grad()) continue;
    if (!seen.insert(item.value().unsafeGetTensorImpl()).second) continue;
    found.names.push_back(item.key());
    found.tensors.push_back(item.value());
  }
  return found;
}

// Return parameters (also those that are not trained) and buffers, in the form that the broadcast
// writes to.
std::vector<at::Tensor> whole_state(torch::nn::Module& module) {
  std::vector<at::Tensor> state;
  for (const at::Tensor& parameter : module.parameters()) state.push_back(parameter.detach());
  for (const at::Tensor& buffer : module.buffers()) state.push_back(buffer.detach());
  return state;
}

std::unique_ptr<c10d::Reducer> make_reducer(const Named& parameters,
                                            c10::intrusive_ptr<c10d::ProcessGroup> group,
                                            const DataParallelOptions& options) {
  const std::vector<bool> sparse(parameters.tensors.size(), false);
  // Use one bucket at first: after one pass the reducer knows the true order of the gradients, and
  // then cuts its buckets by it. With find_unused_parameters it never does that, so the order of
  // definition has to do.
  std::vector<std::size_t> limits{std::numeric_limits<std::size_t>::max()};
  if (options.find_unused_parameters) {
    limits = {static_cast<std::size_t>(options.first_bucket_bytes),
              static_cast<std::size_t>(options.bucket_bytes_max)};
  }
  auto buckets =
      std::get<0>(c10d::compute_bucket_assignment_by_size(parameters.tensors, limits, sparse));
  // Gradients arrive from the last layer to the first.
  std::reverse(buckets.begin(), buckets.end());
  std::unordered_map<std::size_t, std::string> names;
  for (std::size_t i = 0; i < parameters.names.size(); ++i) names[i] = parameters.names[i];
  return std::make_unique<c10d::Reducer>(
      parameters.tensors, std::move(buckets), std::move(group), sparse, options.bucket_bytes_max,
      options.find_unused_parameters, options.gradient_as_bucket_view, std::move(names),
      options.first_bucket_bytes,
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
      std::vector<std::int64_t>{});
}

class ReducerSync;

/// The hooks that this process has put on parameters, at most one on each. A module that is
/// prepared again loses its previous ones here. Never destroyed, because user threads may still
/// train when main returns.
struct PlacedHooks {
  using Parameter = c10::weak_intrusive_ptr<at::TensorImpl, at::UndefinedTensorImpl>;
  struct Hook {
    Parameter parameter;  // while it exists, no other tensor gets the same address
    unsigned id = 0;
    std::weak_ptr<ReducerSync> owner;
  };
  std::mutex mutex;
  std::unordered_map<const at::TensorImpl*, Hook> by_parameter;
};
PlacedHooks& placed_hooks() {
  static PlacedHooks& hooks = *new PlacedHooks;
  return hooks;
}

class ReducerSync final : public GradientSync, public std::enable_shared_from_this<ReducerSync> {
 public:
  ReducerSync(torch::nn::Module& module, Named parameters,
              c10::intrusive_ptr<c10d::ProcessGroup> group, const DataParallelOptions& options)
      : parameters_(std::move(parameters)), group_(std::move(group)), options_(options) {
    if (options.broadcast_buffers) buffers_ = module.buffers();
    reducer_ = make_reducer(parameters_, group_, options);
    if (auto hook = sdk::compression_hook(options.compression, group_))
      reducer_->register_comm_hook(std::move(hook));
  }

  ~ReducerSync() override = default;

  /// Hook into the gradients, in place of the object that did so before. This is not done in the
  /// constructor, because the hooks hold a weak pointer to this object.
  void hang_on() {
    PlacedHooks& placed = placed_hooks();
    const std::lock_guard lock(placed.mutex);
    std::erase_if(placed.by_parameter,
                  [](const auto& entry) { return entry.second.parameter.expired(); });
    for (std::size_t i = 0; i < parameters_.tensors.size(); ++i) {
      const at::Tensor& parameter = parameters_.tensors[i];
      accumulators_.push_back(torch::autograd::impl::grad_accumulator(parameter));
      const auto before = placed.by_parameter.find(parameter.unsafeGetTensorImpl());
      if (before != placed.by_parameter.end()) {
        parameter.remove_hook(before->second.id);
        if (const auto owner = before->second.owner.lock()) owner->replaced_ = true;
        placed.by_parameter.erase(before);
      }
      const unsigned id = parameter.register_hook([weak = weak_from_this(),
                                                   i](const at::TensorBase&) {
        const auto self = weak.lock();
        if (self != nullptr && self->replaced_) {
          sdk::raise(Error{Errc::InvalidArgument,
                           "a parameter got a gradient that the newest train::prepare_model of its "
                           "module did not prepare: the ranks would diverge",
                           "prepare the module again after you change requires_grad"});
        }
        if (self == nullptr) {
          sdk::raise(Error{Errc::InvalidArgument,
                           "a backward pass of a module whose train::DataParallel was destroyed: "
                           "the ranks would diverge",
                           "keep what train::prepare_model returned for as long as you train"});
        }
        self->on_gradient(i);
      });
      placed.by_parameter.emplace(
          parameter.unsafeGetTensorImpl(),
          PlacedHooks::Hook{PlacedHooks::Parameter(parameter.getIntrusivePtr()), id,
                            weak_from_this()});
    }
  }

  bool set_enabled(bool enabled) override { return enabled_.exchange(enabled); }

 private:
  // Called before parameter i's gradient of this pass is accumulated, on the autograd engine's
  // threads.
  void on_gradient(std::size_t i) {
    if (!enabled_.load(std::memory_order_relaxed)) return;
    const int pass = torch::autograd::get_current_graph_task_id();
    if (pass != armed_pass_.load(std::memory_order_acquire)) {
      if (!accumulates(i)) return;  // torch::autograd::grad() returns gradients instead
      const std::lock_guard lock(mutex_);
      if (pass != armed_pass_.load(std::memory_order_relaxed)) {
        arm();
        armed_pass_.store(pass, std::memory_order_release);
      }
    }
    seen_.fetch_add(1, std::memory_order_relaxed);
    if (seen_flags_[i] == 0) seen_flags_[i] = 1;
  }

  bool accumulates(std::size_t i) const {
    const auto* wanted = torch::autograd::get_current_graph_task_exec_info();
    if (wanted == nullptr || wanted->empty()) return true;
    const auto found = wanted->find(accumulators_[i].get());
    return found != wanted->end() && found->second.needed_;
  }

  void arm() {
    waits_.reset();  // if the previous pass ended by an exception
    seen_.store(0, std::memory_order_relaxed);
    seen_flags_.assign(parameters_.tensors.size(), 0);
    reducer_->prepare_for_forward();
    reducer_->rebuild_buckets();  // has an effect only once, in the second pass
    reducer_->prepare_for_backward(options_.find_unused_parameters ? views_of_used()
                                                                   : std::vector<at::Tensor>{});
    torch::autograd::Engine::get_default_engine().queue_callback(
        [self = shared_from_this()] { self->on_pass_end(); });
  }

  // The reducer searches "outputs" for the parameters under them. A view of each parameter that
  // this pass reaches leads it to exactly those. A search from the model's outputs would also find
  // parameters that the loss does not use.
  std::vector<at::Tensor> views_of_used() const {
    const auto* nodes = torch::autograd::get_current_graph_task_nodes_in_graph();
    const at::AutoGradMode record(true);
    std::vector<at::Tensor> views;
    for (std::size_t i = 0; i < accumulators_.size(); ++i) {
      if (nodes->count(accumulators_[i].get()) == 0) continue;
      views.push_back(parameters_.tensors[i].view_as(parameters_.tensors[i]));
    }
    return views;
  }

  // Called when all gradients of the pass are ready and their reductions are under way. The
  // reducer's own callback, which waits for them, was queued before the one that is queued here.
  void on_pass_end() {
    if (!options_.find_unused_parameters) check_all_seen();
    // After this the reducer waits for the other ranks, and then comes what is queued here.
    torch::autograd::Engine::get_default_engine().queue_callback([self = shared_from_this()] {
      if (self->options_.gradient_as_bucket_view) self->free_from_views();
      self->waits_.reset();
      sdk::end_step(StepSource::Backward);
    });
    waits_.emplace();
    if (buffers_.empty()) return;
    guarded("broadcasting buffers from rank 0", [&] {
      // Use new version counters: a second pass over the same graph may still rely on its saved
      // statistics.
      std::vector<at::Tensor> targets;
      for (const at::Tensor& buffer : buffers_) targets.push_back(buffer.variable_data());
      c10d::broadcast_coalesced(group_, targets, kBroadcastBytesMax, 0);
    });
  }

  // C++'s Optimizer::zero_grad() calls detach_() on each gradient, which autograd refuses for views
  // such as the reducer's. So give each gradient a tensor of its own over the same bytes: the
  // reducer accepts that, because it compares storages.
  void free_from_views() {
    const torch::NoGradGuard no_grad;
    aliases_.resize(parameters_.tensors.size());
    for (std::size_t i = 0; i < aliases_.size(); ++i) {
      at::Tensor& gradient = parameters_.tensors[i].mutable_grad();
      if (!gradient.defined() || !gradient.is_view()) continue;
      if (!aliases_[i].defined() || aliases_[i].data_ptr() != gradient.data_ptr()) {
        aliases_[i] = at::empty({0}, gradient.options());
        aliases_[i].set_(gradient.storage(), gradient.storage_offset(), gradient.sizes(),
                         gradient.strides());
      }
      gradient = aliases_[i];
    }
  }

  void check_all_seen() const {
    if (seen_.load() >= parameters_.tensors.size()) return;
    std::ostringstream text;
    std::size_t missing = 0;
    for (std::size_t i = 0; i < seen_flags_.size(); ++i) {
      if (seen_flags_[i] != 0) continue;
      if (missing < kNamesShownMax)
        text << (missing == 0 ? "" : ", ") << "\"" << parameters_.names[i] << "\"";
      ++missing;
    }
    if (missing == 0) return;
    if (missing > kNamesShownMax) text << " and " << missing - kNamesShownMax << " more";
    sdk::raise(Error{Errc::InvalidArgument,
                     std::to_string(missing) + " of " + std::to_string(seen_flags_.size()) +
                         " parameters got no gradient in a backward pass: " + text.str(),
                     "prepare the model with {.find_unused_parameters = true}, or freeze them with "
                     "requires_grad_(false)"});
  }

  Named parameters_;
  std::vector<at::Tensor> buffers_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  DataParallelOptions options_;
  std::vector<std::shared_ptr<Node>> accumulators_;
  std::unique_ptr<c10d::Reducer> reducer_;
  std::vector<at::Tensor> aliases_;  // of the gradients in the buckets, by parameter
  std::atomic<bool> enabled_{true};
  std::atomic<bool> replaced_{false};  // another object has taken over some of the parameters
  std::atomic<int> armed_pass_{-1};
  std::mutex mutex_;                          // guards arming
  std::optional<sdk::InGradientSync> waits_;  // while the reducer waits for the other ranks
  std::atomic<std::size_t> seen_{0};
  std::vector<std::uint8_t> seen_flags_;  // by parameter; each is written by one hook only
};

}  // namespace

std::shared_ptr<GradientSync> GradientSync::attach(torch::nn::Module& module,
                                                   const DataParallelOptions& options) {
  if (sdk::any_sharded(module.parameters())) {
    sdk::raise(Error{Errc::InvalidArgument, "prepare_model: the model is sharded already",
                     "use what train::fully_shard returned"});
  }
  guarded("moving the model to its device", [&] { module.to(device()); });
  auto group = process_group();
  if (!group) return nullptr;
  Named parameters = trained_parameters(module);
  if (parameters.tensors.empty()) {
    sdk::raise(Error{Errc::InvalidArgument,
                     "prepare_model: no parameter of the model needs a gradient",
                     "use the module as it is, or set requires_grad_(true)"});
  }
  const sdk::InPhase waiting(Phase::Collective, "prepare_model");
  try {
    c10d::verify_params_across_processes(group, parameters.tensors, std::nullopt);
  } catch (const std::exception& error) {
    Error found = sdk::classify_torch_error(sdk::torch_error_text(error));
    if (found.code == Errc::Internal) {
      found.code = Errc::InvalidArgument;
      found.hint = "build the same model on every rank";
    }
    sdk::raise(
        std::move(found).with_context("prepare_model: comparing the parameters of the ranks"));
  }
  return guarded("prepare_model: setting up data parallelism", [&] {
    c10d::broadcast_coalesced(group, whole_state(module), kBroadcastBytesMax, 0);
    auto sync =
        std::make_shared<ReducerSync>(module, std::move(parameters), std::move(group), options);
    sync->hang_on();
    return sync;
  });
}

}  // namespace train::detail
