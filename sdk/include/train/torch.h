// The SDK for programs that train with LibTorch: data parallelism, the process group, samplers,
// state on disk, datasets as tensors. Link trainrun::torch. Errors are train::Failure, unless a
// line says otherwise; an exception of LibTorch leaves only from code of the user's own (forward,
// backward, step).
//
// Collective calls (prepare_model, process_group, and the backward passes of a prepared model) are
// made by every rank in the same order. Where a peer dies, or does not come within the job's
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

/// This rank's device: GPU local_rank (modulo the GPUs that it may see), or the CPU where none is
/// visible. Any thread.
torch::Device device();

/// The group of all ranks: NCCL where device() is a GPU, else Gloo, or as
/// backend_config.collectives says. Made by the first call, which is collective (prepare_model
/// makes it, too). Null in a world of one. Use it from one thread at a time; include
/// <torch/csrc/distributed/c10d/ProcessGroup.hpp> for its operations. It is taken down at the
/// process's end.
c10::intrusive_ptr<c10d::ProcessGroup> process_group();

// ---- data parallelism

struct DataParallelOptions {
  std::int64_t first_bucket_bytes = 1 << 20;  // small: reduction starts early in the backward pass
  std::int64_t bucket_bytes_max = 25 << 20;
  /// Gradients live in the buckets themselves: no copy after the reduction, and no second set of
  /// them. Do not put other tensors in their place; zero_grad() is fine either way.
  bool gradient_as_bucket_view = true;
  /// Parameters that a backward pass does not reach take part with zeros, so that ranks may take
  /// different branches. Costs a look at the graph in each step. Without it such a pass throws, and
  /// names the parameters.
  bool find_unused_parameters = false;
  /// Every synchronized backward pass ends with rank 0's buffers (BatchNorm's statistics) on all
  /// ranks.
  bool broadcast_buffers = true;
};

namespace detail {

/// Averages gradients over the ranks during backward passes. It hangs on the parameters' gradients,
/// so it does not matter how forward was called: model(x), model->forward(x), or a part of the
/// module alone.
class GradientSync {
 public:
  /// Move `module` to the device, check that all ranks have the same parameters, and broadcast rank
  /// 0's. Collective.
  static std::shared_ptr<GradientSync> attach(torch::nn::Module& module,
                                              const DataParallelOptions& options);
  virtual ~GradientSync() = default;
  /// Off: backward passes only accumulate on this rank. Returns what it was.
  virtual bool set_enabled(bool enabled) = 0;
};

template <class M, class = void>
struct ModuleOf;  // the holders prepare_model takes
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

/// While it lives, backward passes of the model add to this rank's gradients and do not talk to the
/// others. The first pass after it reduces what has been gathered. All ranks must do alike.
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

/// A module whose gradients are averaged over the ranks. Used like the holder it was made from:
/// model->forward(x), model(x), model->parameters(), torch::save(model.module(), …). Copies share
/// it; keep one as long as you train: a backward pass of the bare module after the last copy is
/// gone throws, rather than train ranks apart.
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
  /// `auto guard = model.no_sync();`
  NoSync no_sync() const { return NoSync(sync_); }

 private:
  std::shared_ptr<Impl> module_;
  std::shared_ptr<detail::GradientSync> sync_;  // null in a world of one
};

/// Make `model` (a TORCH_MODULE holder, or a std::shared_ptr to a module) ready for this rank:
/// moved to device(), parameters and buffers set to rank 0's, gradients averaged over the ranks
/// from then on, overlapping with the backward pass. Call it before the optimizer is made. In a
/// world of one it only moves the module. Collective. Throws Failure("invalid_argument") when ranks
/// disagree about the parameters, or none needs a gradient.
template <class M>
auto prepare_model(const M& model, const DataParallelOptions& options = {}) {
  using Module = detail::ModuleOf<M>;
  auto pointer = Module::pointer(model);
  auto sync = detail::GradientSync::attach(*pointer, options);
  return DataParallel<typename Module::Type>(std::move(pointer), std::move(sync));
}

// ---- samplers and loaders

struct ShardOptions {
  bool shuffle = true;  // by (seed, epoch): the same order on every rank, another one in each epoch
  std::uint64_t seed = 0;
  bool drop_last = false;  // leave out rows that do not divide by the ranks; else shares are filled
                           // up with repeats
};

namespace detail {
template <class Dataset>
class RestartableLoader;
}

/// Where a DistributedSampler stands, and in which order of rows: what its save() keeps. The same
/// on all ranks that have consumed equally many rows.
struct SamplerState {
  std::uint64_t epoch = 0;
  std::size_t rows_done = 0;  // rows of the epoch's order that all ranks together have consumed
  std::size_t rows = 0;       // of the dataset
  bool shuffle = true;
  std::uint64_t seed = 0;  // 0 where shuffle is off
  bool operator==(const SamplerState&) const = default;
};

/// A sampler for torch::data::make_data_loader: each row once an epoch over all ranks together.
/// Copies share all of their state, so set_epoch, save and load work on the one you kept after the
/// loader took its own. Without set_epoch, epochs count up by themselves from start_epoch(). Not
/// for use by several loaders at once. Functions may be called from any thread.
///
/// A pass (one time through an epoch) is under way from reset(), which a loader's begin() calls, to
/// its last row, or to end_pass() or set_epoch(). A loop that is left early leaves it under way.
class DistributedSampler : public torch::data::samplers::Sampler<> {
 public:
  explicit DistributedSampler(std::size_t size, const ShardOptions& options = {});
  /// For ranks other than this worker's own.
  DistributedSampler(std::size_t size, const ShardOptions& options, std::size_t world_size,
                     std::size_t rank, std::uint64_t first_epoch = 0);

  /// Set the epoch that the next pass shows. It shows all of it, unless a state was loaded in the
  /// middle of this same epoch: then it still shows the rest.
  void set_epoch(std::uint64_t epoch);
  /// Return the epoch of the pass that is under way; where none is, of the next one (after load()
  /// the saved one: begin your loop over the epochs there, not at start_epoch()).
  std::uint64_t epoch() const;
  /// Return how many rows each rank has in a whole epoch.
  std::size_t rows_per_rank() const;

  /// Begin the next pass.
  void reset(std::optional<std::size_t> new_size = std::nullopt) override;
  /// Return the next rows of this rank, at most `batch_size` of them; none at the pass's end.
  std::optional<std::vector<std::size_t>> next(std::size_t batch_size) override;

  /// Save the epoch and how many of its rows are consumed, so that a sampler that loads it goes on
  /// with the others. A row is consumed once the loop has its batch: save after the step that
  /// trained on it. Batches that prepare_data_loader's loader has read ahead are not consumed.
  /// LibTorch's own loader with workers does not tell which it has given out: see mark_consumed.
  /// Where all rows are consumed, but the loop has not ended, the rest is a pass without a batch;
  /// after the loop it is the next epoch. Throws Failure("invalid_argument") in the middle of a
  /// pass whose batches come in any order (enforce_ordering(false) with several workers).
  void save(torch::serialize::OutputArchive& archive) const override;
  /// Go on where save() was called: the next pass shows the rows of its epoch that were not
  /// consumed, each once over all ranks. To be called before a loop, by every rank. With as many
  /// ranks as before, each may load what it saved itself. With any other number, or where a rank
  /// has no archive of its own, all load the same one; ranks must have saved after equally many
  /// rows each, as those of one report() have. The rest is dealt out to the ranks there are:
  /// exactly, but for drop_last and the repeats that fill up shares, which are counted anew for the
  /// rest. Throws Failure("invalid_argument") for a state of another size, shuffle or seed, and for
  /// an archive that is none. LibTorch can run code that is in an archive: read only those you
  /// trust (Checkpoint::from_state takes a sampler, too, and its files hold no code).
  void load(torch::serialize::InputArchive& archive) override;

  /// Return what save() writes. Throws as it does.
  SamplerState state() const;
  /// As load().
  void restore(const SamplerState& state);

  /// Count `rows` more of this rank as consumed. For loaders that ask for rows ahead, such as
  /// LibTorch's own with workers: from the first call on, save() counts these rows, and not those
  /// that were asked for; call it with 0 before the first pass. prepare_data_loader's loader does.
  void mark_consumed(std::size_t rows);
  /// End the pass that is under way for good: after it save() and epoch() say the next epoch. For a
  /// loop that was left early and whose rest is not wanted. Nothing where none is under way.
  void end_pass();

 private:
  template <class Dataset>
  friend class detail::RestartableLoader;
  void set_in_order(bool in_order);  // whether batches come in the order in which next() was called

  struct Shared;
  std::shared_ptr<Shared> shared_;  // with the copies
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

/// LibTorch's loader, whose passes need not be read to their ends, and whose sampler is told what
/// was given out.
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

  /// Begin the next pass. Of one that was left early, drop what was read ahead, and wait for the
  /// batches that worker threads are reading.
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
/// the next epoch, also where the loop over the one before was left early (break, an exception of a
/// worker thread): batches that were read ahead are dropped, after a wait for those being read. Use
/// it from one thread.
template <class Dataset>
class DataLoader {
 public:
  using Batch = typename Dataset::BatchType;
  using Loader = detail::RestartableLoader<Dataset>;

  /// One pass. It ends where another begin() is called: ++ throws Failure("invalid_argument")
  /// from then on.
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
  /// Return the sampler, to save or load where the loop stands: torch::save(loader.sampler(),
  /// file), or Checkpoint::from_state(model, optimizer, loader.sampler()). A batch counts as
  /// consumed once the loop has it.
  DistributedSampler& sampler() { return loader_->sampler(); }
  Iterator begin() { return Iterator(loader_->begin_pass(), *loader_); }
  Iterator end() { return Iterator(loader_->end()); }

 private:
  std::unique_ptr<Loader> loader_;
};

/// Load `dataset` (sized, as torch::data's map-style datasets are) with this rank's rows in each
/// epoch. `batch_size` in the options is this rank's.
template <class Dataset>
DataLoader<Dataset> prepare_data_loader(Dataset dataset,
                                        const torch::data::DataLoaderOptions& options = {},
                                        const ShardOptions& shard = {}) {
  const std::size_t rows = dataset.size().value();
  return DataLoader<Dataset>(std::move(dataset), DistributedSampler(rows, shard), options);
}

// ---- datasets of the job's spec as tensors

/// Columns of one batch on device(): numbers are [rows], lists of equal length [rows, n], of the
/// column's own dtype. On the CPU they are views of the reader's memory, which stays alive as long
/// as a tensor of it: clone() before writing into one.
struct TorchBatch {
  std::map<std::string, torch::Tensor> columns = {};
  std::int64_t valid_rows = 0;  // rows after these repeat others, so that all ranks make the same
                                // steps: leave them out of sums
  std::int64_t row_count = 0;

  std::int64_t rows() const { return row_count; }
  /// Throws Failure that lists the columns, for an unknown name.
  torch::Tensor& operator[](const std::string& name);
};

namespace detail {
TorchBatch to_torch(const Batch& batch);
}

/// What iter_torch_batches gives: one pass, begin() may be called once. Errors as BatchRange's, and
/// Failure naming the column that does not fit a tensor (nulls, strings, lists of unequal length).
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
  /// How many batches this pass has: the same on all ranks.
  std::int64_t size() const { return batches_.size(); }

 private:
  BatchRange batches_;
};

// ---- optimizers

/// torch::optim::AdamW with LibTorch's fused kernel: one pass over parameters, gradients and
/// moments where torch::optim::AdamW makes ten. The same options and state: each loads what the
/// other saved. Dense gradients only.
class FusedAdamW : public torch::optim::AdamW {
 public:
  using torch::optim::AdamW::AdamW;
  torch::Tensor step(LossClosure closure = nullptr) override;
};

// ---- state

/// The rows of one rank when `size` rows are dealt out evenly: the first `size % world_size` ranks
/// have one more.
struct Share {
  std::int64_t begin = 0, end = 0;
  std::int64_t size() const { return end - begin; }
};
Share even_share(std::int64_t size);  // this rank's
Share even_share(std::int64_t size, int rank, int world_size);

/// State that no rank holds whole: pieces of tensors, each rank its own, and tensors that all hold
/// alike. Each rank writes its pieces, and its part of what is alike (every tensor once over all
/// ranks); at another world size, or split otherwise, each reads what its pieces need. Names are
/// unique, and the same on all ranks for what is alike. Tensors on any device; they are only
/// referred to: replace one, and the state must be made anew.
class ShardedState {
 public:
  /// The same on all ranks.
  ShardedState& replicated(std::string name, torch::Tensor tensor);
  /// A module's parameters and buffers as "<prefix>.<dotted name>".
  ShardedState& replicated(const std::string& prefix, const torch::nn::Module& module);
  /// This rank's rows of dimension `dim`, of which all ranks together have `size`: even_share(size)
  /// of them. Throws Failure("invalid_argument") for another number.
  ShardedState& split(std::string name, torch::Tensor local, std::int64_t dim, std::int64_t size);
  /// Any piece of a tensor of `shape`: it begins at `offset`. Pieces that several ranks hold are
  /// written by each of them.
  ShardedState& piece(std::string name, torch::Tensor local, std::vector<std::int64_t> shape,
                      std::vector<std::int64_t> offset);

  struct Entry {
    std::string name;
    torch::Tensor local;
    std::vector<std::int64_t> shape, offset;  // of the whole; where `local` begins in it
    bool replicated = false;
  };
  const std::vector<Entry>& entries() const { return entries_; }

 private:
  ShardedState& add(Entry entry);
  std::vector<Entry> entries_;
};

/// What is saved and loaded together; filled by from_state(model, optimizer, …) from its arguments.
struct StateRefs {
  std::vector<torch::nn::Module*> modules = {};
  std::vector<torch::optim::Optimizer*> optimizers = {};
  std::vector<const ShardedState*> sharded = {};
  std::vector<DistributedSampler*> samplers = {};
  std::optional<std::int64_t> epoch =
      std::nullopt;  // saved with the rest, given back by load_state
};

/// What load_state found beside modules and optimizers.
struct LoadedState {
  std::optional<std::int64_t> epoch;
  bool rng_restored = false;  // false where this rank had no part in the save (a larger world)
};

/// Write state into `directory` (made where missing), each file by a rename. Files of rank 0 only:
/// model.safetensors (parameters and buffers by their dotted names; Python's `safetensors` reads
/// it), optimizer.safetensors ("<parameter>.exp_avg"; options and step counts are in the header's
/// "__metadata__"); a second module is model_1.safetensors. Of every rank:
/// rank-0003/rng.safetensors and, of a ShardedState, rank-0003/sharded.safetensors (pieces under
/// their tensors' names; where they lie is in the header's "__metadata__"). Where samplers stand is
/// in torch_state.json: rank 0's, which holds for all that have consumed equally many rows.
/// Optimizers are those of torch::optim and train; of one that derives from them, what it inherits.
/// Not collective. Throws Failure("io", "no_space"), "invalid_argument" for another optimizer.
void save_state(const std::string& directory, const StateRefs& state);
/// Read what save_state wrote, into modules and optimizers that exist: on whatever device they are.
/// Every rank reads for itself. No file of it can run code; optimizer.pt of earlier versions could,
/// and is read only where the environment has TRAINRUN_ALLOW_CODE_IN_CHECKPOINTS=1. Samplers go on
/// as after DistributedSampler::load, at any number of ranks. Throws Failure("not_found",
/// "corrupt"), or "invalid_argument" with all names that are missing, unexpected, or of other
/// shape, and for a sampler of another order of rows.
LoadedState load_state(const std::string& directory, const StateRefs& state);

namespace detail {

/// As load_state; of a committed checkpoint each file is verified while it is read.
LoadedState load_checked(const sdk::CheckedFiles& files, const StateRefs& state);

/// A copy of state in memory of its own, to be written later on any thread.
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

/// Modules, optimizers, sharded states and samplers in any number and order: from_state(model,
/// optimizer, loader.sampler()). The copy is taken before this returns.
template <class... State>
Checkpoint Checkpoint::from_state(State&&... state) {
  return from_writer([write = detail::stage_state(detail::state_of(state...))](
                         const std::filesystem::path& directory) { write(directory.string()); });
}

/// The same arguments in the same order as from_state's.
template <class... State>
void Checkpoint::load(State&&... state) const {
  detail::load_checked(checked_files(), detail::state_of(state...));
}

}  // namespace train
