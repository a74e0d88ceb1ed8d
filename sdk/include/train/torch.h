// The SDK for programs that train with LibTorch: data parallelism, the process group, samplers,
// state on disk, datasets as tensors. <train/torch_loop.h> has helpers for the loop itself (mixed
// precision, clipping, schedules). Link trainrun::torch. Errors are train::Failure unless a
// comment says otherwise; LibTorch's own exceptions come only from user code (forward, backward,
// step).
//
// Every rank must make the collective calls (prepare_model, process_group, and the backward passes
// of a prepared model) in the same order. When a peer dies, or does not join within the job's
// backend_config.timeout, they throw Failure("unavailable" or "timeout").
#pragma once

#include <torch/torch.h>
#include <train/checkpoint.h>
#include <train/context.h>
#include <train/error.h>
#include <train/histogram.h>
#include <train/torch_data.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace c10d {
class ProcessGroup;
}

namespace train {

/// Return this rank's device: GPU local_rank (modulo the number of GPUs that it may see), or the
/// CPU when none is visible. Throws Failure("unavailable") when a GPU is visible but the GPU part
/// of the SDK cannot be loaded. Any thread may call it.
torch::Device device();

/// Return the group of all ranks: NCCL when device() is a GPU, else Gloo, unless
/// backend_config.collectives names one. Where it is `auto` and at most 16 ranks are all on one
/// node, sums (all_reduce and _reduce_scatter_base) and _allgather_base on the CPU go through
/// memory that they share instead of Gloo's connections: the values of an element in the order of
/// the ranks, with the bits that Gloo gives two ranks, and the same on all ranks. The first call
/// makes the group, and is collective (prepare_model makes it, too). Null in a world of one. Use
/// the group from one thread at a time; include <torch/csrc/distributed/c10d/ProcessGroup.hpp> for
/// its operations. The group is destroyed when the process ends.
c10::intrusive_ptr<c10d::ProcessGroup> process_group();

// ---- histograms

/// Count the values of a tensor into a histogram, as histogram.h describes. The tensor may be on
/// any device and of any real type or bool; its values come to the CPU in pieces of 8 MiB. Throws
/// Failure("invalid_argument") for a tensor that is undefined, complex, quantized or sparse.
void histogram(std::string_view name, const torch::Tensor& values,
               const HistogramOptions& options = {});

// ---- data parallelism

/// In what type gradients travel between the ranks. Fp16 and Bf16 halve the bytes; the sum is then
/// made in that type, too (as PyTorch's fp16_compress_hook and bf16_compress_hook do). Bf16 keeps
/// the range of float32 and 8 bits of precision, Fp16 has 11 bits and overflows above 65504.
enum class GradientCompression { None, Fp16, Bf16 };

struct DataParallelOptions {
  std::int64_t first_bucket_bytes = 1 << 20;  // small: reduction starts early in the backward pass
  std::int64_t bucket_bytes_max = 25 << 20;
  /// Gradients live in the buckets themselves, which avoids a copy after the reduction and a second
  /// set of gradients. Do not replace them with other tensors; zero_grad() is fine either way.
  bool gradient_as_bucket_view = true;
  /// Parameters that a backward pass does not reach contribute zeros, so that ranks may take
  /// different branches. This costs a search of the graph in each step. Without it, such a pass
  /// throws a Failure that names the parameters.
  bool find_unused_parameters = false;
  GradientCompression compression = GradientCompression::None;
  /// At the end of every synchronized backward pass, copy rank 0's buffers (BatchNorm's statistics)
  /// to all ranks.
  bool broadcast_buffers = true;
};

namespace detail {

/// Averages gradients over the ranks during backward passes. It hooks into the parameters'
/// gradients, so it does not matter how forward was called: model(x), model->forward(x), or a part
/// of the module alone.
class GradientSync {
 public:
  /// Move `module` to the device, check that all ranks have the same parameters, and broadcast rank
  /// 0's. Collective.
  static std::shared_ptr<GradientSync> attach(torch::nn::Module& module,
                                              const DataParallelOptions& options);
  virtual ~GradientSync() = default;
  /// Turn the averaging on or off. When off, backward passes only accumulate on this rank. Returns
  /// the previous setting.
  virtual bool set_enabled(bool enabled) = 0;
};

template <class M, class = void>
struct ModuleOf;  // the holders that prepare_model accepts
template <class Impl>
struct ModuleOf<std::shared_ptr<Impl>> {
  using Type = Impl;
  static std::shared_ptr<Impl> pointer(const std::shared_ptr<Impl>& module) { return module; }
};
template <class Holder>
struct ModuleOf<Holder, std::void_t<typename Holder::ContainedType>> {
  using Type = typename Holder::ContainedType;
  static std::shared_ptr<Type> pointer(const Holder& holder) { return holder.ptr(); }
};

}  // namespace detail

/// While it lives, backward passes of the model only add to this rank's gradients, without
/// communication. The first pass afterwards reduces what has accumulated. All ranks must do the
/// same.
class NoSync {
 public:
  explicit NoSync(std::shared_ptr<detail::GradientSync> sync)
      : sync_(std::move(sync)), before_(sync_ != nullptr && sync_->set_enabled(false)) {}
  ~NoSync() {
    if (sync_ != nullptr) sync_->set_enabled(before_);
  }
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  std::shared_ptr<detail::GradientSync> sync_;
  bool before_;
};

/// A module whose gradients are averaged over the ranks. Use it like the holder it was made from:
/// model->forward(x), model(x), model->parameters(), torch::save(model.module(), …). Copies share
/// the module. Keep one for as long as you train: once the last copy is gone, a backward pass of
/// the bare module throws, because the ranks would diverge.
template <class Impl>
class DataParallel {
 public:
  using ContainedType = Impl;

  DataParallel(std::shared_ptr<Impl> module, std::shared_ptr<detail::GradientSync> sync)
      : module_(std::move(module)), sync_(std::move(sync)) {}

  Impl* operator->() const { return module_.get(); }
  Impl& operator*() const { return *module_; }
  template <class... Args>
  decltype(auto) operator()(Args&&... args) const {
    return module_->forward(std::forward<Args>(args)...);
  }

  std::vector<torch::Tensor> parameters() const { return module_->parameters(); }
  const std::shared_ptr<Impl>& module() const { return module_; }
  const std::shared_ptr<Impl>& ptr() const { return module_; }
  /// Stop the averaging while the result lives: `auto guard = model.no_sync();`
  NoSync no_sync() const { return NoSync(sync_); }

 private:
  std::shared_ptr<Impl> module_;
  std::shared_ptr<detail::GradientSync> sync_;  // null in a world of one
};

/// Make `model` (a TORCH_MODULE holder, or a std::shared_ptr to a module) ready for this rank: move
/// it to device(), set its parameters and buffers to rank 0's, and from then on average its
/// gradients over the ranks, overlapping with the backward pass. Call it before you make the
/// optimizer. In a world of one it only moves the module. To train more or fewer of a module's
/// parameters, change their requires_grad and prepare it again: that replaces what was prepared
/// before. Collective. Throws Failure("invalid_argument") when ranks disagree about the parameters,
/// or when no parameter needs a gradient.
template <class M>
auto prepare_model(const M& model, const DataParallelOptions& options = {}) {
  using Module = detail::ModuleOf<M>;
  auto pointer = Module::pointer(model);
  auto sync = detail::GradientSync::attach(*pointer, options);
  return DataParallel<typename Module::Type>(std::move(pointer), std::move(sync));
}

// ---- optimizers

/// torch::optim::AdamW with LibTorch's fused kernel, which makes one pass over parameters,
/// gradients and moments where torch::optim::AdamW makes ten. The options and the state are the
/// same: each loads what the other saved. Dense gradients only.
class FusedAdamW : public torch::optim::AdamW {
 public:
  using torch::optim::AdamW::AdamW;
  torch::Tensor step(LossClosure closure = nullptr) override;
};

// ---- state

/// The rows of one rank when `size` rows are divided evenly: the first `size % world_size` ranks
/// have one more.
struct Share {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};
Share even_share(std::int64_t size);  // this rank's
Share even_share(std::int64_t size, int rank, int world_size);

/// State that no rank holds whole: pieces of tensors, of which each rank has its own, and
/// replicated tensors, which are the same on all ranks. Each rank writes its pieces, and its part
/// of the replicated tensors (over all ranks, each of them is written once). At another world size,
/// or with another split, each rank reads what its pieces need. Names are unique; replicated
/// tensors have the same names on all ranks. The tensors may be on any device. ShardedState only
/// refers to them: if you replace a tensor, make the state anew.
class ShardedState {
 public:
  /// Add a tensor that is the same on all ranks.
  ShardedState& replicated(std::string name, torch::Tensor tensor);
  /// Add a module's parameters and buffers as "<prefix>.<dotted name>".
  ShardedState& replicated(const std::string& prefix, const torch::nn::Module& module);
  /// Add this rank's part of a tensor that is split along dimension `dim`, in which all ranks
  /// together have `size` rows: `local` has even_share(size) of them. Throws
  /// Failure("invalid_argument") for another number of rows.
  ShardedState& split(std::string name, torch::Tensor local, std::int64_t dim, std::int64_t size);
  /// Add any piece of a tensor of `shape`; the piece begins at `offset`. When several ranks hold
  /// the same piece, each of them writes it.
  ShardedState& piece(std::string name, torch::Tensor local, std::vector<std::int64_t> shape,
                      std::vector<std::int64_t> offset);

  struct Entry {
    std::string name;
    torch::Tensor local;
    std::vector<std::int64_t> shape, offset;  // of the whole tensor; where `local` begins in it
    bool replicated = false;
  };
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  ShardedState& add(Entry entry);
  std::vector<Entry> entries_;
};

/// State that is a few numbers or texts, the same on all ranks. from_state and load take objects of
/// it like optimizers; GradScaler and LrSchedule (torch_loop.h) are such. Derive from it to save
/// your own. NaN and infinities become null.
class Stateful {
 public:
  virtual ~Stateful() = default;
  /// Name the kind of state, "GradScaler": what saved it and what loads it must agree.
  virtual std::string kind() const = 0;
  virtual Dict state() const = 0;
  /// Take over what state() returned. Throw a Failure for anything else, and then change nothing.
  virtual void load_state(const Dict& state) = 0;

 protected:
  Stateful() = default;
  Stateful(const Stateful&) = default;
  Stateful& operator=(const Stateful&) = default;
};

/// What is saved and loaded together. from_state(model, optimizer, …) fills it from its arguments.
struct StateRefs {
  std::vector<torch::nn::Module*> modules = {};
  std::vector<torch::optim::Optimizer*> optimizers = {};
  std::vector<const ShardedState*> sharded = {};
  std::vector<DistributedSampler*> samplers = {};
  std::vector<Stateful*> stateful = {};
  std::optional<std::int64_t> epoch = std::nullopt;  // saved with the rest; load_state returns it
};

/// What load_state found besides modules and optimizers.
struct LoadedState {
  std::optional<std::int64_t> epoch;
  bool rng_restored = false;  // false if this rank had no part in the save (the world has grown)
};

/// Write state into `directory`, which is made if missing; each file appears under its name only
/// once it is complete. Only rank 0 writes model.safetensors (parameters and buffers by their
/// dotted names; Python's `safetensors` reads it) and optimizer.safetensors ("<parameter>.exp_avg";
/// options and step counts are in the header's "__metadata__"); a second module goes to
/// model_1.safetensors. Every rank writes its own rank-0003/rng.safetensors (here rank 3) and, for
/// a ShardedState, rank-0003/sharded.safetensors (pieces under their tensors' names; the header's
/// "__metadata__" says where in the tensors they lie). Of a sharded model (torch_shard.h), each
/// rank writes its rows into rank-0003/model.safetensors and rank-0003/optimizer.safetensors in the
/// same form; both kinds load into both kinds of models. torch_state.json records the positions of
/// rank 0's samplers, which hold for all ranks that have consumed equally many rows, and what
/// rank 0's Stateful objects return. Optimizers
/// must be those of torch::optim and train; of an optimizer that derives from one of them, only the
/// inherited state is saved. Not collective. Throws Failure("io" or "no_space"), and
/// Failure("invalid_argument") for any other optimizer.
void save_state(const std::string& directory, const StateRefs& state);
/// Load what save_state wrote, into existing modules and optimizers on any device. Every rank reads
/// for itself. None of these files can run code; optimizer.pt of earlier versions could, and is
/// read only when the environment has TRAINRUN_ALLOW_CODE_IN_CHECKPOINTS=1. Samplers continue as
/// after DistributedSampler::load, at any number of ranks. Throws Failure("not_found" or
/// "corrupt"), and Failure("invalid_argument") with all names that are missing, unexpected or of
/// another shape, or for a sampler with another order of rows.
LoadedState load_state(const std::string& directory, const StateRefs& state);

namespace detail {

/// Do as load_state does, but verify each file of a committed checkpoint while reading it.
LoadedState load_checked(const sdk::CheckedFiles& files, const StateRefs& state);

/// Copy the state into memory of its own. The returned function writes the copy, later and on any
/// thread.
std::function<void(const std::string& directory)> stage_state(const StateRefs& state);

inline void collect_state(StateRefs& refs, const StateRefs& more) {
  refs.modules.insert(refs.modules.end(), more.modules.begin(), more.modules.end());
  refs.optimizers.insert(refs.optimizers.end(), more.optimizers.begin(), more.optimizers.end());
  refs.sharded.insert(refs.sharded.end(), more.sharded.begin(), more.sharded.end());
  refs.samplers.insert(refs.samplers.end(), more.samplers.begin(), more.samplers.end());
  refs.stateful.insert(refs.stateful.end(), more.stateful.begin(), more.stateful.end());
  if (more.epoch) refs.epoch = more.epoch;
}
inline void collect_state(StateRefs& refs, torch::optim::Optimizer& optimizer) {
  refs.optimizers.push_back(&optimizer);
}
inline void collect_state(StateRefs& refs, const ShardedState& sharded) {
  refs.sharded.push_back(&sharded);
}
inline void collect_state(StateRefs& refs, DistributedSampler& sampler) {
  refs.samplers.push_back(&sampler);
}
inline void collect_state(StateRefs& refs, Stateful& stateful) {
  refs.stateful.push_back(&stateful);
}
inline void collect_state(StateRefs& refs, torch::nn::Module& module) {
  refs.modules.push_back(&module);
}
template <class Holder>
requires requires(const Holder& holder) { ModuleOf<std::decay_t<Holder>>::pointer(holder); }
void collect_state(StateRefs& refs, const Holder& holder) {
  refs.modules.push_back(ModuleOf<std::decay_t<Holder>>::pointer(holder).get());
}
template <class... State>
StateRefs state_of(State&&... state) {
  StateRefs refs;
  (collect_state(refs, state), ...);
  return refs;
}

}  // namespace detail

/// Save modules, optimizers, sharded states, samplers and Stateful objects in any number and order:
/// from_state(model, optimizer, schedule, loader.sampler()); StateRefs stand for what they have.
/// The copy is taken before this returns.
template <class... State>
Checkpoint Checkpoint::from_state(State&&... state) {
  return from_writer([write = detail::stage_state(detail::state_of(state...))](
                         const std::filesystem::path& directory) { write(directory.string()); });
}

/// Load into the same arguments, in the same order, as from_state's.
template <class... State>
void Checkpoint::load(State&&... state) const {
  detail::load_checked(checked_files(), detail::state_of(state...));
}

}  // namespace train
