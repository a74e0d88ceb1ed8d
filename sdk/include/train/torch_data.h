// Samplers, loaders and datasets for programs that train with LibTorch: each rank reads its share.
// Included by torch.h, whose first lines hold here, too.
#pragma once

#include <torch/torch.h>
#include <train/dataset.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace train {

torch::Device device();  // see torch.h

// ---- samplers and loaders

struct ShardOptions {
  bool shuffle = true;  // by (seed, epoch): the same order on every rank, a new one in each epoch
  std::uint64_t seed = 0;
  /// Leave out the rows that do not divide evenly among the ranks; otherwise, repeated rows fill up
  /// the shares.
  bool drop_last = false;
  /// With a name, every checkpoint holds the loader's position (as `loader/<name>`), and a restart
  /// continues there, at any world size: see prepare_data_loader. The name is the same on all
  /// ranks, at most 64 letters, digits, '_', '-' and '.', and belongs to one loader at a time.
  std::string name = {};
};

namespace detail {
template <class Dataset>
class RestartableLoader;

/// Tells the supervisor, for as long as this object lives, that the loop waits for a batch.
class DataWait {
 public:
  /// `step_ended`: the loop has trained on a batch before this one.
  explicit DataWait(bool step_ended);
  ~DataWait();
  DataWait(const DataWait&) = delete;
  DataWait& operator=(const DataWait&) = delete;

 private:
  struct Impl;
  const std::unique_ptr<Impl> impl_;
};
}  // namespace detail

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
  /// With a name in the options, it continues where the last sampler of that name was, or else the
  /// checkpoint. Throws a Failure if the checkpoint was taken within an epoch of other rows.
  explicit DistributedSampler(std::size_t size, const ShardOptions& options = {});
  /// Make a sampler for a rank other than this worker's own. It needs no name.
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
  /// For a loader that asks ahead, and says by mark_consumed what its loop has received.
  /// `in_order`: batches arrive in the order of next()'s calls.
  void begin_loading(std::size_t batch_size, bool drop_last, bool in_order);
  std::uint64_t passes() const;         // that were begun
  void leave_pass(std::uint64_t pass);  // if it is under way, and the sampler has a name

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
    sampler_.begin_loading(this->options().batch_size, this->options().drop_last,
                           this->options().enforce_ordering || this->options().workers <= 1);
  }

  /// Belongs to the iterators of one pass: when the last one is gone, the loop has been left.
  class InLoop {
   public:
    explicit InLoop(DistributedSampler sampler)
        : sampler_(std::move(sampler)),
          pass_(sampler_.passes()),
          exceptions_at_start_(std::uncaught_exceptions()) {}
    ~InLoop() {
      if (std::uncaught_exceptions() == exceptions_at_start_) sampler_.leave_pass(pass_);
    }
    InLoop(const InLoop&) = delete;
    InLoop& operator=(const InLoop&) = delete;

   private:
    DistributedSampler sampler_;
    std::uint64_t pass_;
    int exceptions_at_start_;
  };

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
        : inner_(std::move(inner)),
          loader_(&loader),
          pass_(loader.pass()),
          in_loop_(std::make_shared<typename Loader::InLoop>(loader.sampler())) {
      take();
    }
    explicit Iterator(torch::data::Iterator<Batch> end) : inner_(std::move(end)) {}
    Batch& operator*() { return *batch_; }
    Batch* operator->() { return &*batch_; }
    Iterator& operator++() {
      check_pass();
      const detail::DataWait wait(true);
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
    std::shared_ptr<typename Loader::InLoop> in_loop_;
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
  Iterator begin() {
    const detail::DataWait wait(false);
    return Iterator(loader_->begin_pass(), *loader_);
  }
  Iterator end() { return Iterator(loader_->end()); }

 private:
  std::unique_ptr<Loader> loader_;
};

/// Return a loader for `dataset` (sized, as torch::data's map-style datasets are) that reads this
/// rank's rows in each epoch. `batch_size` in the options is this rank's.
///
/// With `shard.name`, every checkpoint that is reported holds how far the loop has come: the
/// batches that it has received, not those that were read ahead. After a restart, the loader
/// continues there, at any world size: with the same global batch, each step has the rows that it
/// would have had. Begin the loop over the epochs at sampler().epoch(). A loop that is left early
/// (by `break`, not by an exception) ends its epoch, as it does without a restart. A loader that is
/// made anew with the same name continues where the last one was.
template <class Dataset>
DataLoader<Dataset> prepare_data_loader(Dataset dataset,
                                        const torch::data::DataLoaderOptions& options = {},
                                        const ShardOptions& shard = {}) {
  const std::size_t rows = dataset.size().value();
  return DataLoader<Dataset>(std::move(dataset), DistributedSampler(rows, shard), options);
}

// ---- datasets of the job's spec as tensors

/// The columns of one batch. A column of numbers is [rows], a column of lists of equal length
/// [rows, n], with one more dimension for each further level of lists; one of tensors (Arrow's
/// fixed_shape_tensor, Ray Data's) is [rows, ...] in their shape, and one of bytes of equal length
/// uint8 [rows, bytes]. Each has the column's own dtype, unless `dtypes` says another. On the CPU,
/// such a tensor is a view of the reader's memory, which stays valid as long as any of them:
/// clone() it before you write to it.
struct TorchBatch {
  std::map<std::string, torch::Tensor> columns = {};
  /// Rows after these repeat others, so that all ranks make the same steps: leave them out of sums.
  std::int64_t valid_rows = 0;
  std::int64_t row_count = 0;
  double weight =
      1;  // as in Batch: multiply the mean loss by it where ranks have other numbers of rows

  std::int64_t rows() const { return row_count; }
  /// Return the column `name`. Throws a Failure that lists the columns when the name is unknown.
  torch::Tensor& operator[](const std::string& name);
};

struct TorchBatchOptions {
  /// As in BatchOptions; prefetch_bytes counts the tensors.
  std::int64_t batch_size = 256;
  double weight = 1;
  bool drop_last = false;
  int prefetch_batches = 2;
  std::int64_t prefetch_bytes = 32 << 20;

  /// The types that columns are converted to, by their names; the others keep theirs. A type that
  /// takes more bytes than the column's own is made on the GPU, if the column goes there.
  std::map<std::string, torch::Dtype> dtypes = {};
  /// Where the tensors are; none: device(). The reading thread starts the copies to a GPU, on a
  /// stream of their own: they run beside what the loop has queued, prefetch_batches and
  /// prefetch_bytes ahead of it, and take as much of the GPU's memory. Use the tensors on the
  /// stream that is current where the loop takes the batch; others must wait for that one.
  std::optional<torch::Device> device = {};
  /// Keep tensors on the CPU in memory from which GPUs can copy while the loop goes on. Tensors
  /// that go to a GPU come through such memory anyway. Where this worker sees no GPU, this does
  /// nothing, and says so once on stderr (as torch.utils.data.DataLoader does).
  bool pin_memory = false;
  /// Makes the tensors of a batch, also of columns that are none by themselves (texts). `dtypes`,
  /// `pin_memory` and `device` apply to what it returns; row_count and valid_rows are set to those
  /// of the batch. It is called on the reading thread, for one batch at a time, where no gradients
  /// are recorded. If it throws, so does the loop, with its text, when it comes to that batch.
  std::function<TorchBatch(const arrow::RecordBatch&)> collate_fn = {};
};

inline BatchOptions::operator TorchBatchOptions() const {
  return {.batch_size = batch_size,
          .weight = weight,
          .drop_last = drop_last,
          .prefetch_batches = prefetch_batches,
          .prefetch_bytes = prefetch_bytes};
}

namespace detail {
/// Take the tensors that the reading thread has made. What the current stream gets from now on
/// waits until they are on the GPU.
TorchBatch take_tensors(Batch& batch);
}  // namespace detail

/// Register a map, as register_map() does, that gets the columns as tensors on the CPU, which are
/// its own to change, and returns them: as many rows, in the same order, with any columns, of types
/// that are not complex or quantized. Columns that are no tensors (strings, dates) stay as they
/// are. No gradients are recorded.
void register_torch_map(std::string name,
                        std::function<TorchBatch(TorchBatch, const MapContext&)> map);

/// The range that iter_torch_batches returns: one pass; begin() may be called once. Throws as
/// BatchRange does, and throws a Failure that names the column when a column does not fit a tensor
/// (nulls, strings, lists of unequal length) or when `dtypes` names one that there is not.
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
      if (!(inner_ == end_)) batch_ = detail::take_tensors(*inner_);
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

}  // namespace train
