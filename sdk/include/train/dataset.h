// Gives a worker its part of a dataset in the job's spec. Arrow reads it on threads of this
// process. Needs trainrun::data (Arrow C++); iter_torch_batches also needs trainrun::torch.
#pragma once

#include <train/config.h>
#include <train/error.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace arrow {
class RecordBatch;
class Schema;
}  // namespace arrow

namespace train {

class Checkpoint;
struct TorchBatchOptions;  // torch_data.h

struct BatchOptions {
  /// Rows per batch on this rank, at most 2147483647; ranks may differ. per_worker_batch() divides
  /// up a global batch.
  std::int64_t batch_size = 256;
  /// What this rank's part of a step is measured by, 0.001 to 1000: the ranks divide the sum of
  /// their batch sizes in proportion to batch_size * weight, so that a slow rank can get fewer
  /// rows. Steps, positions and the rows of each step do not depend on it. `balance: true` of the
  /// dataset measures it instead, from the second pass on (docs/data.md).
  double weight = 1;
  bool drop_last = false;    // leave out the last step when it is short, on every rank
  int prefetch_batches = 2;  // batches to prepare ahead, on a thread of their own; 0: none
  /// Of these, as many as fit into this memory together; one is prepared whatever its size.
  std::int64_t prefetch_bytes = 32 << 20;

  operator TorchBatchOptions() const;  // torch_data.h
};

/// The rows of one step: batch_size of them, fewer only in the last batch. Ranks whose share is
/// shorter repeat rows of their own share (at most one row per pass when all have the same batch
/// size), so that all ranks make the same number of steps. Rows [valid_rows, rows) are such
/// repeats: mask them out of sums and means. valid_rows may be 0. Later batches may share this
/// memory: copy the rows before you write to them.
struct Batch {
  std::shared_ptr<arrow::RecordBatch> data;
  std::int64_t valid_rows = 0;
  /// The valid rows' part of those of all ranks in this step, times the number of ranks: 1 if all
  /// have as many. Multiply the mean loss of the valid rows by it, and the mean of the gradients
  /// over the ranks is that of all rows of the step. Rows that `on_error` leaves out count as if
  /// they were there.
  double weight = 1;
  std::shared_ptr<void> converted = {};  // what iter_torch_batches() made of `data`
};

class BatchStream;  // the reading thread; sdk/data

/// A one-pass range over batches; begin() may be called once. If something is wrong, such as a bad
/// file, begin() and ++ throw a train::Failure that names the file and the part of it. You may
/// leave the loop early: the reading thread ends with the range, and the pass is then over.
class BatchRange {
 public:
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = Batch*;
    using reference = Batch&;
    Iterator() = default;
    explicit Iterator(BatchStream* stream);
    Batch& operator*() { return batch_; }
    Batch* operator->() { return &batch_; }
    Iterator& operator++();
    void operator++(int) { ++*this; }
    bool operator==(const Iterator& other) const { return stream_ == other.stream_; }

   private:
    BatchStream* stream_ = nullptr;
    Batch batch_;
  };

  explicit BatchRange(std::shared_ptr<BatchStream> stream);
  Iterator begin();
  Iterator end() { return {}; }
  /// Return how many batches this pass has. It is the same on all ranks.
  std::int64_t size() const;

 private:
  std::shared_ptr<BatchStream> stream_;
};

template <class Tag>
class TorchBatchRangeOf;  // torch.h
using TorchBatchRange = TorchBatchRangeOf<void>;

/// What one operator of a dataset has done on this rank since the dataset was opened. "decode" to
/// "batch" are the work of one thread, which does one of them at a time: so each waits for input
/// while an earlier one is at work, and for room while a later one is, or while enough batches are
/// ready.
struct OperatorStats {
  /// index: opening the dataset; decode: reading and decoding; filter; gather: picking the rows of
  /// a batch; "map NAME" for each map of the spec; batch: making tensors, if they are asked for,
  /// and the batches that are ready; loop: yours, which is busy between two batches.
  std::string name;
  std::int64_t rows = 0;   // that it has passed on; repeats count, but not for loop
  std::int64_t bytes = 0;  // of these, about
  std::chrono::microseconds busy{};
  std::chrono::microseconds waited_for_input{};
  std::chrono::microseconds waited_for_room{};
  std::int64_t queue_bytes = 0;  // of batch: ready now
};

/// The operators, in the order of a row's way.
struct DataStats {
  std::vector<OperatorStats> operators;
};

/// One dataset as this rank sees it: an equal share (±1 row) of "train" or of a dataset with
/// `split: true`; all of any other. Each pass is the next epoch. With `shuffle`, (seed, epoch)
/// determine the order of its rows; without, the order is that of the files, which ranks that share
/// them read from 16 places at once (docs/data.md says how, and what `lanes` and `preserve_order`
/// change). In each step the ranks divide the next rows of one global order among themselves, so
/// with the same global batch a step trains on the same rows at any world size. Checkpoints record
/// the position: after a restart, at any world size, the first pass continues after the last batch
/// that was handed out before the checkpoint, and sees each remaining row of that epoch once. If
/// the files are not those that the checkpoint counts in, get_dataset_shard() throws a Failure that
/// lists which came, went or changed; with `on_change: restart_epoch` that epoch begins again from
/// its first row instead, and rank 0 says so on stderr. Between epochs, a dataset may change. Not
/// thread-safe. Passes over one dataset cannot overlap: a new pass ends the previous one.
class DatasetShard {
 public:
  struct Impl;
  explicit DatasetShard(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

  std::int64_t rows() const;        // of this rank's share, without repeats
  std::int64_t total_rows() const;  // of the whole dataset
  /// Return the columns of the batches; with maps that the program registers, those of the rows
  /// before the first of these.
  std::shared_ptr<arrow::Schema> schema() const;
  /// Set the epoch of the next pass. Without this call, epochs count up from start_epoch(), or from
  /// the checkpoint's position. Any epoch other than that of the position begins at its first row.
  void set_epoch(std::uint64_t epoch);
  /// Return the next pass. When the dataset is split, this is a collective (see barrier()): before
  /// the first step, the ranks compare what they are about to read (row counts, epoch, position,
  /// drop_last), and if they differ, every rank throws a Failure that says what differs on which
  /// ranks.
  BatchRange iter_batches(const BatchOptions& options = {});
  /// Do the same with tensors: column name → tensor on this rank's device. Defined in torch.h.
  TorchBatchRange iter_torch_batches();
  TorchBatchRange iter_torch_batches(const TorchBatchOptions& options);
  /// Return what the operators of the dataset have done so far, also in passes that go on. The one
  /// that holds the others up is busy most of the time. Unlike the other functions, any thread may
  /// call this.
  DataStats stats() const;

  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

/// What a registered map gets to know about the batch that it maps.
class MapContext {
 public:
  MapContext(std::string dataset, std::uint64_t epoch, Config arguments,
             std::vector<std::uint64_t> row_seeds)
      : dataset_(std::move(dataset)),
        epoch_(epoch),
        arguments_(std::move(arguments)),
        row_seeds_(std::move(row_seeds)) {}

  const std::string& dataset() const { return dataset_; }
  std::uint64_t epoch() const { return epoch_; }
  /// Return the arguments that the spec gives this map: `map: [{my_map: {strength: 0.5}}]`.
  const Config& arguments() const { return arguments_; }
  /// Return the seed of row `row` of the batch, in [0, rows). It depends on the dataset's shuffle
  /// seed, the epoch, the row and the map's place in the spec, and on nothing else: take all chance
  /// from it, and a row becomes the same on whatever worker, in whatever batch and after whatever
  /// restart it is mapped.
  std::uint64_t row_seed(std::int64_t row) const {
    return row_seeds_.at(static_cast<std::size_t>(row));
  }

 private:
  std::string dataset_;
  std::uint64_t epoch_;
  Config arguments_;
  std::vector<std::uint64_t> row_seeds_;
};

/// Maps the rows of a batch: returns as many rows, in the same order, with the same columns or
/// others. It may change each row by what is in that row, and by its seed. The memory of the rows
/// belongs to others, too: make new columns. An exception ends the pass, with the map's name.
using MapFunction = std::function<std::shared_ptr<arrow::RecordBatch>(
    std::shared_ptr<arrow::RecordBatch>, const MapContext&)>;

/// Register a map that specs name under `datasets.*.map`, beside the built-in ones. Call it before
/// train::run. The reading thread of each dataset that names it calls it, one batch at a time, so
/// two datasets may call it at once; in an ingest worker, the threads of several ranks do, for the
/// same dataset. So what a map keeps between calls must be safe to use by several threads. Throws a
/// Failure for a name that is taken, that a built-in map has, or that no spec could name.
void register_map(std::string name, MapFunction map);

/// What a map that changes how many rows there are makes of a batch.
struct FlatMapped {
  std::shared_ptr<arrow::RecordBatch> rows;  // any number of them
  /// For each of `rows`, the row of the batch it comes of, in [0, batch rows). They never descend.
  std::vector<std::int64_t> origins;
};

/// Maps each row to any number of rows: leaves rows out, or makes several of one. What it makes of
/// a row depends on that row and its seed only. The schema is the same for any rows, also for none.
using FlatMapFunction =
    std::function<FlatMapped(std::shared_ptr<arrow::RecordBatch>, const MapContext&)>;

/// Register a map that may change how many rows there are, as register_map() does for others. The
/// passes of a dataset that names it still take batch_size rows of the dataset for each batch, so
/// steps, positions and checkpoints do not change; but a batch has the rows that come of these, all
/// of them valid: other numbers of rows in each batch and on each rank, and perhaps none. Average a
/// loss over the ranks by sums (the sum over the rows, and their number). A dataset of a mix cannot
/// have such a map.
void register_flat_map(std::string name, FlatMapFunction map);

/// The preprocessors of a dataset, as they were fitted before the training began: for programs that
/// use the trained model. Any thread.
class Preprocessors {
 public:
  struct Impl;
  explicit Preprocessors(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  /// Return the rows as the model saw them. `rows` need all columns that the preprocessors name,
  /// of the kinds that the dataset had. Throws a Failure that names the preprocessor and the column
  /// if one is missing.
  std::shared_ptr<arrow::RecordBatch> apply(std::shared_ptr<arrow::RecordBatch> rows) const;

 private:
  std::shared_ptr<const Impl> impl_;
};

/// Return the preprocessors that a committed checkpoint (get_checkpoint(), or Checkpoint::open())
/// has of `dataset`. Throws Failure("not_found") if it has none, Failure("corrupt") if they cannot
/// be read.
Preprocessors load_preprocessors(const Checkpoint& checkpoint,
                                 const std::string& dataset = "train");

/// Return this worker's shard of the spec's dataset `name`. The first call opens it; later calls
/// return the same one. Throws a Failure that lists the known names when `name` is unknown, and one
/// that names the file or column when the data is wrong. Any thread may call it. If a split dataset
/// has preprocessors and no checkpoint keeps them, the first call fits them, and is a collective
/// (see barrier()): each rank reads its part of the rows.
DatasetShard get_dataset_shard(const std::string& name = "train");

}  // namespace train
