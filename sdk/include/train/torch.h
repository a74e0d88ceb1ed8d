// The SDK for programs that train with LibTorch: data parallelism, the process group, samplers,
// state on disk, datasets as tensors. Link trainrun::torch. Errors are train::Failure unless a
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
#include <train/dataset.h>
#include <train/error.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
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
/// backend_config.collectives names one. The first call makes the group, and is collective
/// (prepare_model makes it, too). Null in a world of one. Use the group from one thread at a time;
/// include <torch/csrc/distributed/c10d/ProcessGroup.hpp> for its operations. The group is
/// destroyed when the process ends.
c10::intrusive_ptr<c10d::ProcessGroup> process_group();

// ---- data parallelism

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

// ---- samplers and loaders

struct ShardOptions {
  bool shuffle = true;  // by (seed, epoch): the same order on every rank, a new one in each epoch
  std::uint64_t seed = 0;
  /// Leave out the rows that do not divide evenly among the ranks; otherwise, repeated rows fill up
  /// the shares.
  bool drop_last = false;
};

namespace detail {
template <class Dataset>
class RestartableLoader;
}

/// The position of a DistributedSampler, and the order of rows that it refers to: this is what
/// save() writes. It is the same on all ranks that have consumed equally many rows.
struct SamplerState {
  std::uint64_t epoch = 0;
  std::size_t rows_done = 0;  // rows of the epoch's order that all ranks together have consumed
  std::size_t rows = 0;       // of the dataset
  bool shuffle = true;
  std::uint64_t seed = 0;  // 0 when shuffle is off
  bool operator==(const SamplerState&) const = default;
};

/// A sampler for torch::data::make_data_loader that returns each row once per epoch, over all ranks
/// together. Copies share all of their state, so set_epoch, save and load work on the copy that you
/// kept when the loader took its own. Without set_epoch, epochs count up from start_epoch(). Do not
/// use it in several loaders at once. Any thread may call its functions.
///
/// A pass (one time through an epoch) is under way from reset(), which a loader's begin() calls,
/// until the loop has gone past its last row, or until end_pass() or set_epoch(). Leaving a loop
/// early leaves the pass under way.
class DistributedSampler : public torch::data::samplers::Sampler<> {
 public:
  explicit DistributedSampler(std::size_t size, const ShardOptions& options = {});
  /// Make a sampler for a rank other than this worker's own.
  DistributedSampler(std::size_t size, const ShardOptions& options, std::size_t world_size,
                     std::size_t rank, std::uint64_t first_epoch = 0);

  /// Set the epoch of the next pass. The pass covers the whole epoch, unless a state in the middle
  /// of this same epoch was loaded: then it covers only the rest.
  void set_epoch(std::uint64_t epoch);
  /// Return the epoch of the pass that is under way, or of the next pass when none is. After load()
  /// this is the saved epoch: start your loop over the epochs there, not at start_epoch().
  std::uint64_t epoch() const;
  /// Return how many rows each rank has in a whole epoch.
  std::size_t rows_per_rank() const;

  /// Begin the next pass.
  void reset(std::optional<std::size_t> new_size = std::nullopt) override;
  /// Return the next rows of this rank, at most `batch_size` of them; none at the pass's end.
  std::optional<std::vector<std::size_t>> next(std::size_t batch_size) override;

  /// Save the epoch and how many of its rows are consumed, so that a sampler that loads this
  /// continues with the other rows. A row is consumed once the loop has received its batch: save
  /// after the step that trained on it. Batches that prepare_data_loader's loader has read ahead
  /// are not consumed. LibTorch's own loader with workers does not tell which batches it has
  /// returned: see mark_consumed. When all rows are consumed but the loop has not ended, the rest
  /// is a pass without batches; after the loop it is the next epoch. Throws
  /// Failure("invalid_argument") in the middle of a pass whose batches arrive in any order
  /// (enforce_ordering(false) with several workers).
  void save(torch::serialize::OutputArchive& archive) const override;
  /// Continue where save() was called: the next pass returns the rows of the saved epoch that were
  /// not consumed, each once over all ranks. Every rank must call it, before a loop. With as many
  /// ranks as before, each rank may load what it saved itself. With any other number, or when a
  /// rank has no archive of its own, all ranks load the same archive; in that case the ranks must
  /// have saved after equally many rows each, as those of one report() have. The remaining rows are
  /// divided among the present ranks exactly, except that drop_last, and the repeats that fill up
  /// shares, apply anew to these rows. Throws Failure("invalid_argument") for a state of another
  /// size, shuffle or seed, and for an archive that holds no state of a sampler. LibTorch can run
  /// code from an archive: load only archives that you trust (Checkpoint::from_state takes a
  /// sampler, too, and its files hold no code).
  void load(torch::serialize::InputArchive& archive) override;

  /// Return what save() writes. Throws as save() does.
  SamplerState state() const;
  /// Continue at `state`, as load() does.
  void restore(const SamplerState& state);

  /// Count `rows` more of this rank's rows as consumed. This is for loaders that request rows
  /// ahead, such as LibTorch's own with workers: from the first call on, save() counts these rows
  /// instead of those that were requested. Call it with 0 before the first pass.
  /// prepare_data_loader's loader does all this itself.
  void mark_consumed(std::size_t rows);
  /// End the pass that is under way: afterwards save() and epoch() give the next epoch. Call it
  /// after leaving a loop early, when you do not want the remaining rows. Does nothing when no pass
  /// is under way.
  void end_pass();

 private:
  template <class Dataset>
  friend class detail::RestartableLoader;
  void set_in_order(bool in_order);  // whether batches arrive in the order of next()'s calls

  struct Shared;
  std::shared_ptr<Shared> shared_;  // shared with the copies
};

/// Move a batch to `where`: tensors, Examples and vectors of them; other types stay as they are.
inline torch::Tensor to_device(torch::Tensor tensor, torch::Device where) {
  return tensor.to(where, /*non_blocking=*/true);
}
template <class Data, class Target>
torch::data::Example<Data, Target> to_device(torch::data::Example<Data, Target> example,
                                             torch::Device where) {
  if constexpr (std::is_same_v<Target, torch::data::example::NoTarget>) {
    return {to_device(std::move(example.data), where)};
  } else {
    return {to_device(std::move(example.data), where), to_device(std::move(example.target), where)};
  }
}
template <class T>
T to_device(T other, torch::Device) {
  return other;
}
template <class T>
std::vector<T> to_device(std::vector<T> batch, torch::Device where) {
  for (T& item : batch) item = to_device(std::move(item), where);
  return batch;
}

namespace detail {

/// LibTorch's loader, except that a pass may be left early, and that it tells the sampler which
/// batches it has returned.
template <class Dataset>
class RestartableLoader : public torch::data::StatelessDataLoader<Dataset, DistributedSampler> {
 public:
  using Base = torch::data::StatelessDataLoader<Dataset, DistributedSampler>;

  RestartableLoader(Dataset dataset, DistributedSampler sampler,
                    const torch::data::DataLoaderOptions& options)
      : Base(std::move(dataset), sampler, options), sampler_(std::move(sampler)) {
    sampler_.mark_consumed(0);
    sampler_.set_in_order(this->options().enforce_ordering || this->options().workers <= 1);
  }

  /// Begin the next pass. If the previous pass was left early, drop what it read ahead, and wait
  /// for the batches that worker threads are reading.
  auto begin_pass() {
    this->shuttle_.drain();
    ++pass_;
    return this->begin();
  }
  std::uint64_t pass() const { return pass_; }
  void mark_batch() { sampler_.mark_consumed(this->options().batch_size); }
  void mark_end() { sampler_.end_pass(); }
  DistributedSampler& sampler() { return sampler_; }

 private:
  DistributedSampler sampler_;  // shares its state with the base's
  std::uint64_t pass_ = 0;
};

}  // namespace detail

/// torch::data's loader over this rank's share, with its batches on device(). Each begin() starts
/// the next epoch, even when the loop over the previous one was left early (break, an exception of
/// a worker thread): it waits for the batches that are being read, and drops those that were read
/// ahead. Use the loader from one thread.
template <class Dataset>
class DataLoader {
 public:
  using Batch = typename Dataset::BatchType;
  using Loader = detail::RestartableLoader<Dataset>;

  /// One pass. It ends when begin() is called again: from then on ++ throws
  /// Failure("invalid_argument").
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = Batch*;
    using reference = Batch&;
    Iterator(torch::data::Iterator<Batch> inner, Loader& loader)
        : inner_(std::move(inner)), loader_(&loader), pass_(loader.pass()) {
      take();
    }
    explicit Iterator(torch::data::Iterator<Batch> end) : inner_(std::move(end)) {}
    Batch& operator*() { return *batch_; }
    Batch* operator->() { return &*batch_; }
    Iterator& operator++() {
      check_pass();
      ++inner_;
      take();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(const Iterator& other) const { return inner_ == other.inner_; }
    bool operator!=(const Iterator& other) const { return !(*this == other); }

   private:
    void check_pass() const {
      if (pass_ == loader_->pass()) return;
      throw Failure("invalid_argument",
                    "this iterator is of a pass that ended when the loader's next one began");
    }
    void take() {
      if (inner_ == loader_->end()) return loader_->mark_end();
      batch_ = to_device(std::move(*inner_), device());
      loader_->mark_batch();
    }
    torch::data::Iterator<Batch> inner_;
    Loader* loader_ = nullptr;
    std::uint64_t pass_ = 0;
    std::optional<Batch> batch_;
  };

  DataLoader(Dataset dataset, DistributedSampler sampler,
             const torch::data::DataLoaderOptions& options)
      : loader_(std::make_unique<Loader>(std::move(dataset), std::move(sampler), options)) {}

  void set_epoch(std::uint64_t epoch) { sampler().set_epoch(epoch); }
  /// Return the sampler, to save or load the loop's position: torch::save(loader.sampler(), file),
  /// or Checkpoint::from_state(model, optimizer, loader.sampler()). A batch counts as consumed once
  /// the loop has received it.
  DistributedSampler& sampler() { return loader_->sampler(); }
  Iterator begin() { return Iterator(loader_->begin_pass(), *loader_); }
  Iterator end() { return Iterator(loader_->end()); }

 private:
  std::unique_ptr<Loader> loader_;
};

/// Return a loader for `dataset` (sized, as torch::data's map-style datasets are) that reads this
/// rank's rows in each epoch. `batch_size` in the options is this rank's.
template <class Dataset>
DataLoader<Dataset> prepare_data_loader(Dataset dataset,
                                        const torch::data::DataLoaderOptions& options = {},
                                        const ShardOptions& shard = {}) {
  const std::size_t rows = dataset.size().value();
  return DataLoader<Dataset>(std::move(dataset), DistributedSampler(rows, shard), options);
}

// ---- datasets of the job's spec as tensors

/// The columns of one batch on device(). A column of numbers is [rows], a column of lists of equal
/// length [rows, n], with one more dimension for each further level of lists; each has the column's
/// own dtype. On the CPU the tensors are views of the reader's memory, which stays valid as long as
/// any of them: clone() a tensor before you write to it.
struct TorchBatch {
  std::map<std::string, torch::Tensor> columns = {};
  /// Rows after these repeat others, so that all ranks make the same steps: leave them out of sums.
  std::int64_t valid_rows = 0;
  std::int64_t row_count = 0;

  std::int64_t rows() const { return row_count; }
  /// Return the column `name`. Throws a Failure that lists the columns when the name is unknown.
  torch::Tensor& operator[](const std::string& name);
};

namespace detail {
TorchBatch to_torch(const Batch& batch);
}

/// The range that iter_torch_batches returns: one pass; begin() may be called once. Throws as
/// BatchRange does, and throws a Failure that names the column when a column does not fit a tensor
/// (nulls, strings, lists of unequal length).
template <>
class TorchBatchRangeOf<void> {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = TorchBatch;
    using difference_type = std::ptrdiff_t;
    using pointer = TorchBatch*;
    using reference = TorchBatch&;
    Iterator() = default;
    Iterator(BatchRange::Iterator inner, BatchRange::Iterator end)
        : inner_(std::move(inner)), end_(std::move(end)) {
      take();
    }
    TorchBatch& operator*() { return batch_; }
    TorchBatch* operator->() { return &batch_; }
    Iterator& operator++() {
      ++inner_;
      take();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(const Iterator& other) const { return inner_ == other.inner_; }

   private:
    void take() {
      if (!(inner_ == end_)) batch_ = detail::to_torch(*inner_);
    }
    BatchRange::Iterator inner_, end_;
    TorchBatch batch_;
  };

  explicit TorchBatchRangeOf(BatchRange batches) : batches_(std::move(batches)) {}
  Iterator begin() { return {batches_.begin(), batches_.end()}; }
  Iterator end() { return {batches_.end(), batches_.end()}; }
  /// Return how many batches this pass has. It is the same on all ranks.
  std::int64_t size() const { return batches_.size(); }

 private:
  BatchRange batches_;
};

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

/// What is saved and loaded together. from_state(model, optimizer, …) fills it from its arguments.
struct StateRefs {
  std::vector<torch::nn::Module*> modules = {};
  std::vector<torch::optim::Optimizer*> optimizers = {};
  std::vector<const ShardedState*> sharded = {};
  std::vector<DistributedSampler*> samplers = {};
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
/// "__metadata__" says where in the tensors they lie). torch_state.json records the positions of
/// rank 0's samplers, which hold for all ranks that have consumed equally many rows. Optimizers
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

inline void collect_state(StateRefs& refs, torch::optim::Optimizer& optimizer) {
  refs.optimizers.push_back(&optimizer);
}
inline void collect_state(StateRefs& refs, const ShardedState& sharded) {
  refs.sharded.push_back(&sharded);
}
inline void collect_state(StateRefs& refs, DistributedSampler& sampler) {
  refs.samplers.push_back(&sampler);
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

/// Save modules, optimizers, sharded states and samplers in any number and order: from_state(model,
/// optimizer, loader.sampler()). The copy is taken before this returns.
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
