// This worker's part of a dataset of the job's spec, read by Arrow on threads of this process.
// Needs trainrun::data (Arrow C++); iter_torch_batches also needs trainrun::torch.
#pragma once

#include <train/error.h>

#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace arrow {
class RecordBatch;
class Schema;
}  // namespace arrow

namespace train {

struct BatchOptions {
  std::int64_t batch_size =
      256;  // rows, on this rank; per_worker_batch() makes one of a global size. Ranks may differ
  bool drop_last = false;    // leave out the last batch when it is short (on every rank alike)
  int prefetch_batches = 2;  // made ready ahead on a thread of their own; 0: none
};

/// Rows of one step: batch_size of them, fewer only in the last. Ranks whose share is shorter
/// repeat rows of their own share (at most one row a pass where all have the same batch size), so
/// that all ranks make the same number of steps: rows [valid_rows, rows) are such repeats, to be
/// masked out of sums and means. valid_rows may be 0. The rows may be a view of what later batches
/// show too: copy before writing into them.
struct Batch {
  std::shared_ptr<arrow::RecordBatch> data;
  std::int64_t valid_rows = 0;
};

class BatchStream;  // the reading thread; sdk/data

/// A one-pass range over batches; begin() may be called once. Errors (a bad file) leave as
/// train::Failure from begin() or ++, naming file and row group. Leaving the loop early is fine:
/// the reading thread ends with the range, and the pass is over.
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
  /// How many batches this pass has: the same on all ranks.
  std::int64_t size() const;

 private:
  std::shared_ptr<BatchStream> stream_;
};

template <class Tag>
class TorchBatchRangeOf;  // torch.h
using TorchBatchRange = TorchBatchRangeOf<void>;

/// One dataset as this rank sees it: an equal share (±1 row) of "train", or where `split: true`;
/// the whole of any other. Each pass is the next epoch: with `shuffle` its order is that of (seed,
/// epoch); without, that of the files. In each step the ranks divide the next rows of one global
/// order, so with the same global batch a step trains on the same rows at any world size.
/// Checkpoints carry the position: after a restart, at whatever world size, the first pass goes on
/// after the last batch that was handed out before the checkpoint, and sees each remaining row of
/// that epoch once. Not thread-safe; passes over one dataset cannot overlap: a new one ends the one
/// before.
class DatasetShard {
 public:
  struct Impl;
  explicit DatasetShard(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

  std::int64_t rows() const;        // of this rank's share, without repeats
  std::int64_t total_rows() const;  // of the whole dataset
  std::shared_ptr<arrow::Schema> schema() const;
  /// The epoch of the next pass; otherwise it counts up from start_epoch(), or from the
  /// checkpoint's position. Another number than that position's begins the epoch at its first row.
  void set_epoch(std::uint64_t epoch);
  /// The next pass. Where the dataset is split this is a collective (see barrier()): the ranks
  /// compare their row counts, and a difference is a Failure that names them, on every rank, before
  /// the first step.
  BatchRange iter_batches(const BatchOptions& options = {});
  /// torch.h: column name → tensor on this rank's device.
  TorchBatchRange iter_torch_batches(const BatchOptions& options = {});

  const std::shared_ptr<Impl>& impl() const { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

/// This worker's shard of the spec's dataset `name`, opened at the first call and the same one from
/// then on. Throws Failure that lists the known names for an unknown one, and one that says which
/// file or column is wrong with the data. Any thread.
DatasetShard get_dataset_shard(const std::string& name = "train");

}  // namespace train
