// Counts for a pass over a dataset how long its loop waits for batches, and its reading thread for
// room. Without meters, it counts nothing.
#pragma once

#include <cstdint>
#include <memory>

#include "lib/progress/dataset_meters.h"

namespace train::sdk {

class PassMeter {
 public:
  explicit PassMeter(std::shared_ptr<DatasetMeters> meters) : meters_(std::move(meters)) {}

  /// The loop asks for a batch, and gets one. Only its thread calls these.
  void loop_asks();
  void loop_gets(std::int64_t rows, std::int64_t bytes);
  /// The pass is over for the loop, and nothing reads any more. Only the first call counts: another
  /// pass may have begun since.
  void leave();

  /// The one that reads has no room for its batch, or nobody who wants one; and reads on.
  void reader_waits();
  void reader_goes_on();
  /// A batch is ready.
  void made(std::int64_t rows, std::int64_t bytes);
  /// So many bytes are ready.
  void queue(std::int64_t bytes);

 private:
  std::shared_ptr<DatasetMeters> meters_;  // null once left
};

}  // namespace train::sdk
