// One pass over a shard: its own thread prepares batches in a bounded queue. DatasetShard makes it,
// and the BatchRange that user code holds owns it. Only the user's thread calls these functions.
#pragma once

#include <train/config.h>
#include <train/dataset.h>

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "lib/data/batch_reader.h"
#include "sdk/data/map_chain.h"

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
  };

  BatchStream(Pass pass, std::unique_ptr<data::BatchSource> reader);
  /// Stop and join the thread, which finishes at most the row group that it is decoding. A pass
  /// that was left early is then over, unless it was left by an exception: then the position stays
  /// as it would be in a checkpoint taken now.
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
  Result<data::ReadBatch> read(std::int64_t index);
  void read_ahead();
  Result<data::ReadBatch> pop();
  void stop();
  void tell_position(const data::ReadBatch& batch);
  void tell_over();
  bool trains() const { return pass_.dataset == "train"; }

  const Pass pass_;
  std::unique_ptr<data::BatchSource> reader_;  // only the thread uses it while it runs
  const int exceptions_at_start_;
  std::int64_t handed_out_ = 0;
  bool begun_ = false;
  bool over_ = false;
  bool superseded_ = false;

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::deque<Result<data::ReadBatch>> ready_;
  bool stopping_ = false;

  std::thread thread_;
};

}  // namespace train
