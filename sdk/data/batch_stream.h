// One pass over a shard: its own thread prepares batches in a bounded queue. DatasetShard makes it,
// and the BatchRange that user code holds owns it. Only the user's thread calls these functions.
#pragma once

#include <train/config.h>
#include <train/dataset.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "lib/data/batch_reader.h"
#include "sdk/data/convert_batch.h"
#include "sdk/data/loop_speed.h"
#include "sdk/data/map_chain.h"
#include "sdk/data/pass_meter.h"

namespace train {

class BatchStream {
 public:
  struct Pass {
    std::string dataset = {};
    std::shared_ptr<const Dict> order = {};       // cursor_order() of this pass
    std::shared_ptr<const Dict> next_order = {};  // of the next one
    std::uint64_t epoch = 0;
    std::int64_t batches = 0;
    std::shared_ptr<const sdk::MapChain> maps = {};  // null: none
    int prefetch_batches = 2;  // the queue's limit; 0: read when asked, with no thread
    std::int64_t prefetch_bytes = 32 << 20;  // its other limit; it holds one batch of any size
    sdk::ConvertBatch convert = {};  // on the reading thread; none: batches stay as they are
    std::shared_ptr<DatasetMeters> meters = {};  // null: nobody counts
    std::shared_ptr<sdk::LoopSpeed> speed = {};  // null: nobody measures it
  };

  BatchStream(Pass pass, std::unique_ptr<data::BatchSource> reader);
  /// Stop and join the thread, which finishes at most the row group that it is decoding, and waits
  /// no longer for an object store. A pass that was left early is then over, unless it was left by
  /// an exception: then the position stays as it would be in a checkpoint taken now.
  ~BatchStream();
  BatchStream(const BatchStream&) = delete;
  BatchStream& operator=(const BatchStream&) = delete;

  /// Start reading. Throws Failure when called again.
  void begin();
  /// Return the next batch, or nothing at the end, and tell the session the position of the pass.
  /// Throws Failure when the batch cannot be read.
  std::optional<Batch> next();
  /// End the pass because another one begins: later calls of next() throw.
  void supersede();
  std::int64_t size() const { return pass_.batches; }

 private:
  struct Ready {
    Batch batch;
    std::int64_t rows = 0;
    std::int64_t rows_consumed = 0;
    std::int64_t bytes = 0;
  };

  Result<Ready> read(std::int64_t index);
  Result<Ready> read_now();
  Result<Ready> prepare(data::ReadBatch batch) const;
  void read_ahead();
  bool has_room(std::int64_t bytes) const;
  Result<Ready> pop();
  void stop();
  void tell_position(std::int64_t rows_consumed);
  void tell_over();
  void measure();
  bool trains() const { return pass_.dataset == "train"; }

  const Pass pass_;
  std::unique_ptr<data::BatchSource> reader_;  // only the thread uses it while it runs
  sdk::PassMeter meter_;
  const int exceptions_at_start_;
  std::int64_t handed_out_ = 0;
  std::int64_t rows_in_work_ = 0;  // of the last batch
  std::uint64_t busy_before_ = 0;  // time_in() when the loop asked for it
  bool begun_ = false;
  bool over_ = false;
  bool superseded_ = false;

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<Result<Ready>> ready_;
  std::int64_t ready_bytes_ = 0;
  std::atomic<bool> stopping_ = false;  // read_ahead() also looks without the mutex

  std::thread thread_;
};

}  // namespace train
